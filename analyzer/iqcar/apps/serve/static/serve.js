// What pages do beyond links and forms: search while typing, progress, a bound on how many to choose.
"use strict";

{
const SEARCH_MS = 250; // from the last key to the search
const PROGRESS_MS = 700; // between two questions about progress
const GROWTH_MS = 5000; // between two looks whether a log has grown
const FILLING_MS = 1500; // between two looks at a list that is still being read
const RETRY_MS = 5000; // after the server did not answer

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function ask(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(answer.status);
  return answer.json();
}

// The list: the server renders it, only its table is put in place of the old one.
let latest = 0;

async function showList(address, remember) {
  const mine = ++latest;
  const answer = await fetch(address);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("list");
  if (mine !== latest || !fresh) return;
  const list = document.getElementById("list");
  const chosen = new Set([...list.querySelectorAll("input[name=app]:checked")].map((box) => box.value));
  const focused = list.contains(document.activeElement) ? place(document.activeElement) : null;
  list.replaceWith(document.adoptNode(fresh));
  for (const box of fresh.querySelectorAll("input[name=app]")) box.checked = chosen.has(box.value);
  limitChoice();
  if (focused) fresh.querySelector(focused)?.focus();
  if (remember) history.replaceState(null, "", address);
}

function place(element) {
  if (element.name === "app") return `input[name=app][value="${CSS.escape(element.value)}"]`;
  const row = element.closest("tr")?.querySelector("input[name=app]");
  if (row) return `tr:has(input[value="${CSS.escape(row.value)}"]) td.name a`;
  const column = element.closest("th");
  return column ? `th.${CSS.escape(column.className)} a` : null;
}

function addressOf(form) {
  const query = new URLSearchParams(new FormData(form));
  for (const [name, value] of [...query]) if (!value) query.delete(name);
  return `/?${query}`;
}

function liveSearch() {
  const form = document.querySelector("form[data-live]");
  if (!form) return;
  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(() => showList(addressOf(form), true).catch(() => {}), SEARCH_MS);
  };
  form.addEventListener("input", later);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    showList(addressOf(form), true).catch(() => {});
  });
  fillList();
}

async function fillList() {
  for (;;) {
    const unread = Number(document.getElementById("list").dataset.unread);
    await sleep(unread ? FILLING_MS : GROWTH_MS);
    if (!document.hidden) await showList(location.pathname + location.search, false).catch(() => {});
  }
}

function limitChoice() {
  const form = document.querySelector("form[data-together]");
  if (!form) return;
  const most = Number(form.dataset.together);
  const update = () => {
    const boxes = [...form.querySelectorAll("input[name=app]")];
    const count = boxes.filter((box) => box.checked).length;
    form.querySelector("button[type=submit]").disabled = count < 1;
    form.querySelector("button[formaction]").disabled = count < 2;
    for (const box of boxes) box.setCustomValidity(box.checked && count > most ? `At most ${most}` : "");
  };
  form.addEventListener("change", update);
  update();
}

// An analysis: begin it for who came from the list, follow it, say when the log has grown.
function cameFromHere() {
  try {
    return new URL(document.referrer).origin === location.origin;
  } catch {
    return false;
  }
}

function begin(box) {
  const navigated = performance.getEntriesByType("navigation")[0]?.type === "navigate";
  const form = box.querySelector("form[data-start]");
  if (form && box.dataset.state === "" && box.dataset.grown === "no" && navigated && cameFromHere()) {
    form.requestSubmit();
    return true;
  }
  return false;
}

async function follow(box) {
  for (;;) {
    const busy = box.dataset.state === "queued" || box.dataset.state === "running";
    await sleep(busy ? PROGRESS_MS : GROWTH_MS);
    if (!busy && document.hidden) continue;
    try {
      const now = await ask(box.dataset.ask);
      if (!now) return location.reload(); // the log is gone: its page says so
      if (now.state !== (box.dataset.state || null) || Boolean(now.grown) !== (box.dataset.grown === "yes")) {
        return location.reload();
      }
      if (busy) show(box, now);
    } catch {
      await sleep(RETRY_MS);
    }
  }
}

function show(box, now) {
  const words = now.state === "queued" ? "Waiting for a free process" : now.phase || "starting";
  const label = box.querySelector("[data-phase]");
  const text = words.charAt(0).toUpperCase() + words.slice(1);
  if (label.textContent !== text) label.textContent = text;
  const bar = box.querySelector("progress");
  if (now.phase === "reading") bar.value = now.share;
  else bar.removeAttribute("value");
}

// The look of our own pages; a report has a button of its own, which remembers in the same place.
function startLook() {
  const button = document.querySelector("button#look[hidden]");
  if (!button) return;
  const looks = ["auto", "light", "dark"];
  const wear = (look) => {
    document.documentElement.dataset.theme = looks.includes(look) ? look : "auto";
    button.textContent = `Look: ${document.documentElement.dataset.theme}`;
  };
  button.addEventListener("click", () => {
    const next = looks[(looks.indexOf(document.documentElement.dataset.theme) + 1) % looks.length];
    localStorage.setItem("iqcar-look", next);
    wear(next);
  });
  button.hidden = false;
  wear(localStorage.getItem("iqcar-look") ?? "auto");
}

// The way back leads to the list as it was searched and sorted.
function startBack() {
  const list = "iqcar-list";
  if (document.getElementById("list")) {
    addEventListener("pagehide", () => sessionStorage.setItem(list, location.search));
  }
  const search = sessionStorage.getItem(list) ?? "";
  for (const link of document.querySelectorAll("a[data-back]")) link.search = search;
}

startLook();
startBack();
liveSearch();
limitChoice();
const box = document.querySelector("[data-analysis]");
if (box && !begin(box)) follow(box);
}
