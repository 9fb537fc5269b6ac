"""Run live topics (after Hound §5): do topics name the injected anomalies and the planted skew?

    sudo .venv/bin/python scripts/experiments/topics_live.py [--seed N] [--again]

A standalone cluster of three hosts runs queries whose tasks are even but for a skewed shuffle.
During some sessions `iqcar-lab inject` loads the processor or the disk of one host. Topics are
found from the event log alone and held against what was going on in each stage. Needs root and
control groups of version 1 (:mod:`cluster`); a run takes about six minutes.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from arms import OUT, fresh, options, save, say
from cluster import (
    Cluster,
    Host,
    Size,
    check_machine,
    cluster,
    ended_after,
    inject,
    start_application,
    wait_until,
)
from tables import topics_live

import iqcar
from iqcar.causes.topics.topic_result import Topics
from iqcar.pipeline import stragglers_of, topics_of
from iqcar.rules.advice_rules import advise
from iqcar.rules.vocabulary import TopicName, topic_name
from iqcar.tables import Tables, texts

EXPERIMENT = "topics_live"
HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
SIZE = Size(cores=0.6, disk_bytes_per_s=12 << 20)
TASKS = 24
ROWS, HASHES = 8_000, 8
"""A tenth of a second of a core for a task, a third of a second on its host."""
ROWS_OF_FILE = 75_000
"""3 MB: a quarter of a second of its host's disk."""
COLUMNS = ("a", "b", "c", "d", "e")
CONF = {
    "spark.sql.shuffle.partitions": str(TASKS),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.openCostInBytes": "128m",
    "spark.sql.files.maxPartitionBytes": "128m",
    "spark.sql.files.minPartitionNum": "1",
}
"""One task per file, and no partition joined with another."""
SETTINGS: dict[str, dict[str, Any]] = {
    "cpu": {"processes": 4},
    "io": {"processes": 2, "read_share": 0.9, "size_bytes": 64 << 20},
}
LONGEST_S = 300
"""An injection ends with its session, or then."""
SETTLE_S = 2.0
WARM_UP = "warm-up"
NAMES_OF = {
    "cpu": ("limited-processor",),
    "io": ("limited-io", "input-read"),
    "skew": ("shuffle-skew",),
}
"""Names in rules/topics.json that tell of each trouble."""
NONE = "none"


@dataclass(frozen=True)
class Session:
    """Queries that run while one host has trouble, or none has."""

    name: str
    queries: tuple[str, ...]
    anomaly: str = ""
    host: int = -1


def sessions(seed: int) -> list[Session]:
    """Plan the sessions; the seed picks the hosts and shuffles the order."""
    pick = random.Random(seed)
    hosts = [pick.randrange(len(HOSTS)) for _ in range(5)]
    found = [
        Session("quiet", ("compute", "scan") * 4),
        Session("skew", ("skewed",) * 8),
        Session("cpu 1", ("compute",) * 6, "cpu", hosts[0]),
        Session("cpu 2", ("compute",) * 6, "cpu", hosts[1]),
        Session("io 1", ("scan",) * 6, "io", hosts[2]),
        Session("io 2", ("scan",) * 6, "io", hosts[3]),
        Session("cpu and skew", ("skewed",) * 6, "cpu", hosts[4]),
    ]
    pick.shuffle(found)
    return [Session("warm-up", ("compute", "scan", "skewed") * 2), *found]


def write_files(folder: Path, seed: int) -> None:
    """Write even files of numbers that do not compress."""
    folder.mkdir()
    numbers = np.random.default_rng(seed)
    for number in range(TASKS):
        table = pa.table({name: numbers.random(ROWS_OF_FILE) for name in COLUMNS})
        file = folder / f"part-{number:02d}.parquet"
        pq.write_table(table, file, compression="none", use_dictionary=False)


def start_trouble(folder: Path, host: Host, anomaly: str) -> subprocess.Popen[bytes]:
    """Load a host from now on; return when the load is there."""
    log = folder / f"truth-{len(list(folder.glob('truth-*')))}.jsonl"
    settings = dict(SETTINGS[anomaly])
    if anomaly == "io":
        settings["folder"] = str(host.folder)
    one = {"host": host.name, "anomaly": anomaly, "after_ms": 0, "for_ms": 1000 * LONGEST_S}
    plan = {"injections": [{**one, "settings": settings}]}
    running = inject(host, plan, log.with_suffix(".plan.json"), log)
    wait_until(lambda: log.exists() and log.stat().st_size > 0, f"{anomaly} load", [running])
    return running


def run_session(spark: Cluster, folder: Path, number: int, session: Session, jobs: Any) -> None:
    """Run one session: trouble first, then its queries, then no more trouble."""
    wait_until((folder / f"ready-{number}").exists, f"session {number}", [jobs])
    trouble = None
    started = time.monotonic()
    try:
        if session.anomaly:
            trouble = start_trouble(folder, spark.hosts[session.host], session.anomaly)
        time.sleep(SETTLE_S)
        (folder / f"go-{number}").touch()
        wait_until((folder / f"done-{number}").exists, f"end of {session.name}", [jobs])
    finally:
        if trouble is not None:
            trouble.terminate()
            trouble.wait(timeout=30)
    say(
        EXPERIMENT,
        f"{session.name}: {len(session.queries)} queries, {time.monotonic() - started:.0f} s",
    )


def run(folder: Path, seed: int) -> None:
    """Run the cluster, the queries and the injections; write what a later look needs."""
    planned = sessions(seed)
    write_files(folder / "files", seed)
    plan = {
        "folder": str(folder), "files": str(folder / "files"), "tasks": TASKS, "rows": ROWS,
        "hashes": HASHES,
        "sessions": [{"name": one.name, "queries": one.queries} for one in planned],
    }  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan))
    program = Path(__file__).with_name("topics_live_jobs.py")
    with cluster(HOSTS, folder, SIZE) as spark:
        words = [str(program), str(folder / "plan.json")]
        started = start_application(words, spark.master, folder, "jobs", CONF)
        with ended_after(started) as jobs:
            for number, session in enumerate(planned):
                run_session(spark, folder, number, session, jobs)
                if number == 0:
                    spark.limit()
            if jobs.wait(timeout=120):
                raise SystemExit(f"the Spark application failed, see {folder / 'jobs.log'}")
    meta = {
        "seed": seed,
        "hosts": len(HOSTS),
        "tasks_per_stage": TASKS,
        "size": {"cores": SIZE.cores, "disk_bytes_per_s": SIZE.disk_bytes_per_s},
        "settings": SETTINGS,
        "sessions": [
            {"name": s.name, "anomaly": s.anomaly, "host": HOSTS[s.host] if s.anomaly else ""}
            for s in planned
        ],
        **json.loads((folder / "jobs.json").read_text()),
    }
    (folder / "run.json").write_text(json.dumps(meta))


def trouble_of(tables: Tables, anomalies: dict[str, str]) -> list[str]:
    """What was wrong in each stage: skew, cpu, io, cpu and skew, or none; empty: not judged."""
    names = texts(tables.queries, "name")
    tasks = tables.tasks
    reads = np.bincount(
        tasks["stage"], np.nan_to_num(tasks["shuffle_read_records"]), minlength=len(tables.stages)
    )
    found = []
    for row, query in enumerate(tables.stages["query"].tolist()):
        what, _, session = names[query].partition(" in ")
        if session == WARM_UP or session not in anomalies:
            found.append("")
            continue
        planted = ["skew"] if what == "skewed" and reads[row] > 0 else []
        injected = [anomalies[session]] if anomalies[session] else []
        found.append(" and ".join([*injected, *planted]) or NONE)
    return found


def make_result(folder: Path, meta: dict[str, Any]) -> dict[str, Any]:
    """Find topics and compare them with the truth.

    folder: with ``eventlogs/``.
    meta: what was run: its sessions and the tasks of a stage.
    """
    tables = _without_folders(iqcar.read(folder / "eventlogs"))
    anomalies = {one["name"]: one["anomaly"] for one in meta["sessions"]}
    trouble = trouble_of(tables, anomalies)
    stragglers, found = stragglers_of(tables), topics_of(tables)
    named = [topic_name(found.words_of(topic)) for topic in range(len(found.topics))]
    counted = np.bincount(tables.tasks["stage"], minlength=len(tables.stages))
    large = [
        kind for kind, tasks in zip(trouble, counted, strict=True)
        if tasks >= meta["tasks_per_stage"] and kind
    ]  # fmt: skip
    kinds = [kind for kind in ("cpu", "io", "skew", "cpu and skew", NONE) if kind in large]
    rules = advise(tables, stragglers, top=10)
    return {
        "topics": [
            {"name": one.name, "key": one.key, "keywords": found.words_of(number),
             "coverage": float(found.topics["coverage"].iloc[number])}
            for number, one in enumerate(named)
        ],
        "reason": found.reason,
        "stages": [_stages(kind, large.count(kind), found, named, trouble) for kind in kinds],
        "advice": [
            {"kind": rule.kind, "host": rule.host, "reason": rule.reason} for rule in rules
        ],
    }  # fmt: skip


def _without_folders(tables: Tables) -> Tables:
    """Call stages after the program's name alone: where it lay is nobody's business."""
    names = [re.sub(r"(?<= at )\S*/", "", name) for name in texts(tables.stages, "name")]
    return replace(tables, stages=tables.stages.assign(name=names))


def _stages(
    kind: str, count: int, found: Topics, named: list[TopicName], trouble: list[str]
) -> dict[str, Any]:
    """What the stages of one trouble have in their mixtures, and their stragglers as topics."""
    stage = found.jobs["stage"].tolist()
    jobs = [job for job, row in enumerate(stage) if trouble[row] == kind]
    mixture = found.mixtures[found.mixtures["job"].isin(jobs)]
    shares: Counter[str] = Counter()
    for topic, share in zip(mixture["topic"].tolist(), mixture["share"].tolist(), strict=True):
        shares[named[topic].name] += share / max(len(jobs), 1)
    keys = [key for one in kind.split(" and ") for key in NAMES_OF.get(one, ())]
    right = {number for number, one in enumerate(named) if one.key in keys}
    # Several topics can have one name: together they are the job's cause.
    of_job = mixture[mixture["topic"].isin(right)].groupby("job")["share"].sum()
    of = found.stragglers[found.stragglers["job"].isin(jobs)]
    sources = found.sources[found.sources["job"].isin(jobs) & found.sources["topic"].isin(right)]
    blamed = sources.groupby("kind")["lost_ms"].sum()
    return {
        "trouble": kind,
        "stages": count,
        "with_stragglers": len(jobs),
        "with_a_mixture": int(mixture["job"].nunique()),
        "share_named_so": float(mixture["share"][mixture["topic"].isin(right)].sum())
        / max(len(jobs), 1),
        "dominant_named_so": int((of_job > 0.5).sum()),
        "mixture": dict(shares.most_common()),
        "stragglers": int(found.jobs["stragglers"].to_numpy(np.int64)[jobs].sum()),
        "straggler_topics": dict(
            Counter(named[topic].name for topic in of["topic"].tolist()).most_common()
        ),
        "stragglers_named_so": int(of["topic"].isin(right).sum()),
        "lost_ms_by_blame": {str(who): float(ms) for who, ms in blamed.items()},
    }


def main() -> None:
    """Run everything and look at what was found."""
    chosen = options(__doc__, "again", seed=1)
    folder = OUT / EXPERIMENT
    if not chosen.again:
        check_machine()
        run(fresh(EXPERIMENT), chosen.seed)
    meta = json.loads((folder / "run.json").read_text())
    save(EXPERIMENT, chosen.results, {**meta, **make_result(folder, meta)}, topics_live)


if __name__ == "__main__":
    main()
