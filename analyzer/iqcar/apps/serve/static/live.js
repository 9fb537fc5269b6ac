// The page of a running application: shows each window that the server sends.
"use strict";

{
const root = document.getElementById("live");
const part = (name) => document.getElementById(`live-${name}`);
const RETRY_MS = 10000; // after the server refused
const OLD_MS = 10000; // age of the newest event from which it is told
const LONG_QUIET_MS = 3600000; // age from which nobody knows whether it runs

function time(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 7200000) return `${(ms / 60000).toFixed(1)} min`;
  return `${(ms / 3600000).toFixed(1)} h`;
}
const percent = (share) => `${Math.round(share * 100)} %`;
const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
const called = (one) => (one.number && one.number !== one.name && !one.name.endsWith(`(${one.number})`) ? `${one.name} (${one.number})` : one.name);
const parts = (of) => Object.entries(of).filter(([, ms]) => ms > 0).sort((a, b) => b[1] - a[1])
  .slice(0, 3).map(([name, ms]) => `${name} ${time(ms)}`).join(", ");

function fill(table, titles, rows, none) {
  table.replaceChildren();
  const head = table.createTHead().insertRow();
  for (const title of titles) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = title;
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const text of row) line.insertCell().textContent = text;
  }
  if (!rows.length) {
    const cell = body.insertRow().insertCell();
    cell.colSpan = titles.length;
    cell.textContent = none;
  }
}

function show(now) {
  if (now.problem) {
    part("state").textContent = now.problem;
    return;
  }
  const quiet = now.end_ms - now.newest_event_ms;
  const words = { running: "Running", ended: "The application has ended", gone: "Its log cannot be read any further" };
  const lost = now.state === "running" && Date.now() - now.newest_event_ms > LONG_QUIET_MS;
  const newest = new Date(now.newest_event_ms).toISOString();
  part("state").textContent = lost ? `No end since ${newest.slice(0, 10)} ${newest.slice(11, 16)} UTC` : `${words[now.state]}, ${new Date(now.end_ms).toISOString().slice(11, 19)} UTC`
    + (now.state === "running" && quiet >= OLD_MS ? `; the log is quiet: its newest event came ${time(quiet)} ago` : "");
  const at = now.now;
  part("now").textContent = `${at.slots_used} of ${at.slots ?? "?"} slots used on ${count(at.executors, "executor")}; `
    + `${count(at.stages_running, "stage")} and ${count(at.tasks_running, "task")} run, `
    + `${count(at.tasks_waiting, "task")} wait to be launched`;
  part("lost").textContent = now.lost_ms > 0
    ? `${time(now.lost_ms)} lost: ${now.resources.slice(0, 3).map((one) => `${one.name} ${percent(one.share)}`).join(", ")}`
      + (now.hosts.length ? `; ${now.hosts.slice(0, 3).map((one) => `${one.name} ${percent(one.share)}`).join(", ")}` : "")
    : "";
  const rows = [];
  for (const one of now.victims) {
    one.blamed.slice(0, 4).forEach((by, at) => rows.push([
      at ? "" : called(one), at ? "" : time(one.lost_ms), at ? "" : String(one.waiting),
      called(by), time(by.lost_ms), percent(by.share), parts(by.by_resource), parts(by.by_host),
    ]));
  }
  fill(part("victims"), ["Query", "Lost", "Tasks waiting", "Because of", "Time", "Share", "For", "Where"], rows, "No time was lost to contention.");
  fill(part("aggressors"), ["Query", "Others lost", "Victims", "Mostly", "Slots now"],
    now.aggressors.map((one) => [called(one), time(one.lost_ms), String(one.victims), one.resource, one.running ? String(one.slots) : "ended"]), "None.");
  fill(part("slow"), ["Query", "Stage", "Partition", "Host", "Runs for", "Median"],
    now.slow_tasks.map((one) => [called(one), String(one.stage_id), String(one.index), one.host, time(one.running_ms), time(one.median_ms)]), "None.");
  part("notes").replaceChildren(...now.notes.map((note) => {
    const line = document.createElement("li");
    line.textContent = note;
    return line;
  }));
}

// Nobody looks at a hidden page: the server stops following then.
let stream = null;
let over = false;
let timer = 0;

function stop() {
  clearTimeout(timer);
  if (stream) stream.close();
  stream = null;
}

function start() {
  stop();
  if (over || document.hidden) return;
  stream = new EventSource(root.dataset.stream);
  stream.onmessage = (event) => show(JSON.parse(event.data));
  stream.addEventListener("over", () => {
    over = true;
    stop();
  });
  stream.onerror = () => {
    stop();
    part("state").textContent = "The server does not answer, or too many look; trying again.";
    timer = setTimeout(start, RETRY_MS);
  };
}

document.addEventListener("visibilitychange", start);
addEventListener("pagehide", stop);
start();
}
