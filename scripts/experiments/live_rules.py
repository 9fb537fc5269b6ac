"""Hold back an intruder that comes and goes: no rules, offline rules, a cap, and the live loop.

    .venv/bin/python scripts/experiments/live_rules.py [--rounds 2] [--cluster standalone]

Each run is one application of about a minute: short queries come all the time, and an intruder with
long tasks comes twice. Offline rules and caps are those that an analysis of the first run without
rules proposes; the live loop starts without any and follows the log. Rounds take the arms in turns.
Measured runs are kept: one that was ended goes on; `--again` only prints; `--quick` takes one short
phase and one round.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from arms import OUT, options, save
from cluster import daemons, ended_after, log_of, start_application, wait_until
from tables import live_rules

import iqcar
from iqcar.comparison.rule_verdict import judge_effect
from iqcar.model.demand.host_samples import outside_load
from iqcar.rules.compile_pools import allocation_xml, dump_compiled, dump_rules
from iqcar.rules.recorded_setup import Recorded
from iqcar.rules.rule import Pool, PoolPlan, Rule, RuleType

BASE = "no rules"
RELIEF_RUNS = 5
"""A phase is relieved from the first short query on that waits for one task of the intruder at
most, if the median of it and the next four does, too: no scheduler takes back a slot."""

Run = Mapping[str, Any]


def figures(measured: Run) -> dict[str, Any]:
    """Figures of one application.

    measured: ``began_ms``, ``ran`` (name, start_ms, end_ms of each query), ``phases`` (first and
    last second of each intrusion), ``intruder``, ``intruder_task_s``, ``journal`` (lines of the
    live loop), ``outside_load``.
    Returns ``busy_s`` and ``quiet_s``: durations of the short queries that came while the intruder
    was there, and before it came; ``intruder_s``: its durations; per phase seconds to the rule and
    to relief, None without; ``changes`` and ``oscillations``.
    """
    began, phases = measured["began_ms"], measured["phases"]
    rows = [
        (one["name"], (one["start_ms"] - began) / 1e3, (one["end_ms"] - one["start_ms"]) / 1e3)
        for one in sorted(measured["ran"], key=lambda one: one["start_ms"])
    ]
    short = [(at, took) for name, at, took in rows if name != measured["intruder"]]
    quiet = [took for at, took in short if at < phases[0][0]]
    busy = [took for at, took in short if any(a <= at < b for a, b in phases)]
    changes = [
        {
            "at_s": (_epoch_ms(line["time"]) - began) / 1e3,
            "event": line["event"],
            "rule": f"{line['rule']['rule-type']} for {line['rule']['query_name']}",
            "reason": line["reason"],
        }
        for line in measured["journal"]
        if line["event"] in ("write", "take-back")
    ]
    most = float(np.median(quiet)) + measured["intruder_task_s"]
    return {
        "quiet_s": quiet,
        "busy_s": busy,
        "intruder_s": [took for name, _, took in rows if name == measured["intruder"]],
        "to_rule_s": [_first_rule(changes, a, b) for a, b in phases],
        "to_relief_s": [
            _relief([(at - a, took) for at, took in short if a <= at < b], most) for a, b in phases
        ],
        "changes": changes,
        "oscillations": oscillations(changes, phases),
        "outside_load": measured["outside_load"],
    }


def _epoch_ms(time: str) -> float:
    return 1e3 * datetime.fromisoformat(time).timestamp()


def _first_rule(changes: Iterable[Run], first: float, last: float) -> float | None:
    """Seconds from an intrusion to the first rule; 0 where one from before still acts."""
    acting = 0
    for change in changes:
        if first <= change["at_s"] < last and change["event"] == "write" and not acting:
            return float(change["at_s"] - first)
        if change["at_s"] < first:
            acting += 1 if change["event"] == "write" else -1
    return 0.0 if acting else None


def _relief(short: Sequence[tuple[float, float]], most: float) -> float | None:
    """Seconds from an intrusion until short queries take no longer than this."""
    slow = [number for number, (_, took) in enumerate(short) if took > most]
    for number in range(slow[0] if slow else 0, len(short) - RELIEF_RUNS + 1):
        next_ones = [took for _, took in short[number : number + RELIEF_RUNS]]
        if next_ones[0] <= most and float(np.median(next_ones)) <= most:
            return float(short[number][0])
    return None


def oscillations(changes: Sequence[Run], phases: Sequence[Sequence[float]]) -> int:
    """Count rules taken back and written again although the intruder had not gone meanwhile."""
    count = 0
    for number, change in enumerate(changes):
        if change["event"] != "take-back":
            continue
        again = [
            one["at_s"]
            for one in changes[number + 1 :]
            if one["event"] == "write" and one["rule"] == change["rule"]
        ]
        came = [a for a, _ in phases if again and change["at_s"] <= a <= again[0]]
        gone = [b for _, b in phases if b <= change["at_s"]]
        count += bool(again) and not (came and gone)
    return count


def result(found: Mapping[str, Mapping[str, Sequence[Run]]]) -> dict[str, Any]:
    """Figures by cluster and arm over all rounds, with the verdict on each arm.

    found: mapping of cluster to mapping of arm to sequence of :func:`figures`
    """
    clusters = {}
    for cluster, arms in found.items():
        if BASE not in arms:
            continue
        summed = {arm: _summed(rounds) for arm, rounds in arms.items()}
        for arm, one in summed.items():
            base = summed[BASE]
            judged = judge_effect(
                _change(base["busy_median_s"], one["busy_median_s"]),
                _change(base["quiet_median_s"], one["quiet_median_s"]),
                (base["outside_load"], one["outside_load"]),
            )
            if arm != BASE:
                one["verdict"] = judged.verdict.value
                one["sentence"] = f"short queries {judged.sentence}"
        clusters[cluster] = {"rounds": max(map(len, arms.values())), "arms": summed}
    return {"clusters": clusters}


def _summed(rounds: Sequence[Run]) -> dict[str, Any]:
    busy, quiet, intruder = (
        np.array([took for one in rounds for took in one[name]])
        for name in ("busy_s", "quiet_s", "intruder_s")
    )
    loads = [one["outside_load"] for one in rounds if one["outside_load"] is not None]
    return {
        "busy_median_s": float(np.median(busy)),
        "busy_p90_s": float(np.quantile(busy, 0.9)),
        "busy_runs": len(busy),
        "quiet_median_s": float(np.median(quiet)),
        "intruder_median_s": float(np.median(intruder)),
        "intruder_runs": len(intruder) / len(rounds),
        "to_rule_s": [seconds for one in rounds for seconds in one["to_rule_s"]],
        "to_relief_s": [seconds for one in rounds for seconds in one["to_relief_s"]],
        "changes": [one["changes"] for one in rounds],
        "oscillations": sum(one["oscillations"] for one in rounds),
        "outside_load": float(np.mean(loads)) if loads else None,
    }


def _change(before: float, after: float) -> float:
    return 100 * (after / before - 1.0)


def load(folder: Path, arms: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Figures of the rounds that were measured, by arm, in the order of the arms."""
    found: dict[str, list[dict[str, Any]]] = {}
    for arm in arms:
        for file in sorted(folder.glob(f"*/{arm.replace(' ', '_')}/measured.json")):
            found.setdefault(arm, []).append(figures(json.loads(file.read_text("utf-8"))))
    return found


EXPERIMENT = "live_rules"
OFFLINE, CAPS, LIVE = "offline rules", "caps", "live loop"
ARMS = (BASE, OFFLINE, CAPS, LIVE)
CLUSTERS = ("embedded", "standalone")
HOSTS, SLOTS = ("127.0.0.2", "127.0.0.3"), 4
INTRUDER = "etl"
QUERIES = {
    "report": {"tasks": 4, "ms": 150},
    "dashboard": {"tasks": 2, "ms": 100},
    INTRUDER: {"tasks": 24, "ms": 1200},
}
EVERY_S = 0.75
PHASES, ENDS_S = ((8.0, 26.0), (36.0, 54.0)), 56.0
QUICK_PHASES, QUICK_ENDS_S = ((6.0, 22.0),), 24.0
LOOP = ("--window", "10s", "--every", "2500ms", "--wins", "2", "--of-windows", "3")
LONGEST_S = 180.0
HERE = Path(__file__).resolve().parent


def plan_of(folder: Path, quick: bool) -> dict[str, Any]:
    """The timeline of one application."""
    phases, ends = (QUICK_PHASES, QUICK_ENDS_S) if quick else (PHASES, ENDS_S)
    short = [name for name in QUERIES if name != INTRUDER]
    times = [EVERY_S * number for number in range(int(ends / EVERY_S))]
    return {
        "queries": QUERIES,
        "intruder": INTRUDER,
        "phases": phases,
        "arrivals": [(at, short[number % len(short)]) for number, at in enumerate(times)],
        "result": str(folder / "result.json"),
    }


def rules_of(arm: str, base: Path) -> bytes:
    """The rules file that an arm starts with, from the log of the first run without rules."""
    if arm in (BASE, LIVE):
        return dump_rules((), PoolPlan(), Recorded())
    diagnosis = iqcar.diagnose(iqcar.read([log_of(base)]), top=3)
    caps = [rule for rule in diagnosis.rules if rule.rule_type is RuleType.CAP]
    weights = [rule for rule in diagnosis.rules if rule.rule_type is not RuleType.CAP]
    if arm == OFFLINE:
        return dump_compiled(diagnosis.tables, weights)
    return dump_compiled(diagnosis.tables, caps or [_cap_by_hand(weights)])


def _cap_by_hand(rules: list[Rule]) -> Rule:
    """Half of the slots for the intruder, and never more, where no cap is proposed."""
    source = next((rule for rule in rules if rule.query_name == INTRUDER), None)
    if source is None:
        raise SystemExit(f"{EXPERIMENT}: no rule for the intruder is proposed")
    return replace(
        source, id="CAP-1", rule_type=RuleType.CAP, rule_value=0.5, expected=None, strict=True
    )


def run(cluster: str, arm: str, folder: Path, base: Path, quick: bool) -> None:
    """Run one application, with the loop beside it where the arm is the live one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rules = folder / "rules.json"
    rules.write_bytes(rules_of(arm, base))
    plan = plan_of(folder, quick)
    (folder / "plan.json").write_text(json.dumps(plan, indent=1), "utf-8")
    pools = folder / "pools.xml"
    pools.write_bytes(allocation_xml([Pool("default")]))
    conf = {
        "spark.app.name": EXPERIMENT,
        "spark.eventLog.compress": "false",
        # All arms have the scheduler of the rules, in which `default` works as Spark does without.
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": str(pools),
        "spark.iqcar.rules": str(rules),
        "spark.executor.cores": str(SLOTS // len(HOSTS)),
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    began = time.monotonic()
    journal = folder / "journal.jsonl"
    embedded = nullcontext((f"local[{SLOTS}]", []))
    workers = daemons(HOSTS, folder, SLOTS // len(HOSTS))
    with embedded if cluster == "embedded" else workers as (master, _):
        words = [str(HERE / "live_rules_jobs.py"), str(folder / "plan.json")]
        started = start_application(words, master, folder, "application", conf)
        with ended_after(started), loop_of(arm, folder, rules, journal, started):
            started.wait(timeout=LONGEST_S)
    outcome = folder / "result.json"
    if not outcome.exists():
        raise SystemExit(f"{EXPERIMENT}: the application failed, see {folder}")
    measured = json.loads(outcome.read_text("utf-8"))
    if measured["failed"]:
        raise SystemExit(f"{EXPERIMENT}: {measured['failed'][0]}, see {folder}")
    lines = journal.read_text("utf-8").splitlines() if journal.exists() else []
    content = {
        **measured,
        "phases": plan["phases"],
        "intruder": INTRUDER,
        "intruder_task_s": QUERIES[INTRUDER]["ms"] / 1e3,
        "journal": [json.loads(line) for line in lines],
        "outside_load": outside_load(iqcar.read([log_of(folder)])).share,
    }
    (folder / "measured.json").write_text(json.dumps(content), "utf-8")
    print(f"{EXPERIMENT}: {cluster}, {arm}: {time.monotonic() - began:.0f} s", flush=True)


@contextmanager
def loop_of(
    arm: str, folder: Path, rules: Path, journal: Path, application: subprocess.Popen[bytes]
) -> Iterator[None]:
    """Follow the application with the live loop, in a process of its own."""
    if arm != LIVE:
        yield
        return
    logs = folder / "eventlogs"
    wait_until(lambda: any(logs.glob("[al]*")), "an event log", [application])
    command = [sys.executable, "-m", "iqcar", "live", str(log_of(folder)), "--apply", str(rules)]
    with (folder / "loop.log").open("ab") as out:
        loop = subprocess.Popen(
            [*command, "--journal", str(journal), "--json", *LOOP],
            env=dict(os.environ), stdout=out, stderr=out,
        )  # fmt: skip
        try:
            yield
        finally:
            loop.send_signal(signal.SIGINT)
            try:
                loop.wait(timeout=30)
            except subprocess.TimeoutExpired:
                loop.kill()
                loop.wait()


def main() -> None:
    """Run the rounds that are missing; print all that are there."""
    flags = ("quick", "fresh", "again")
    chosen = options(__doc__, *flags, clusters=CLUSTERS, arms=ARMS, rounds=2)
    out = OUT / (f"{EXPERIMENT}_quick" if chosen.quick else EXPERIMENT)
    arms = list(chosen.arms)
    for cluster in () if chosen.again else chosen.cluster or CLUSTERS[:1]:
        if chosen.fresh:
            shutil.rmtree(out / cluster, ignore_errors=True)
        for number in range(1 if chosen.quick else chosen.rounds):
            for arm in arms if number % 2 == 0 else arms[::-1]:
                folder = out / cluster / str(number) / arm.replace(" ", "_")
                if not (folder / "measured.json").exists():
                    base = out / cluster / "0" / BASE.replace(" ", "_")
                    run(cluster, arm, folder, base, chosen.quick)
    found = {cluster: load(out / cluster, ARMS) for cluster in CLUSTERS}
    found = {cluster: measured for cluster, measured in found.items() if measured}
    save(EXPERIMENT, out if chosen.quick else chosen.results, result(found), live_rules)


if __name__ == "__main__":
    main()
