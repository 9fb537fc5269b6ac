"""Compare the topics of the live run with the anomalies in each stage."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import iqcar
from iqcar.causes.topics.topic_result import Topics
from iqcar.pipeline import stragglers_of, topics_of
from iqcar.rules.advice_rules import advise
from iqcar.rules.vocabulary.topics import TopicName, topic_name
from iqcar.tables import Tables, texts

WARM_UP = "warm-up"
NAMES_OF = {
    "cpu": ("limited-processor",),
    "io": ("limited-io", "input-read"),
    "skew": ("shuffle-skew",),
}
"""Names in rules/topics.json that tell of each trouble."""
NONE = "none"


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
             "models": found.topics["models"].iloc[number],
             "coverage": float(found.topics["coverage"].iloc[number])}
            for number, one in enumerate(named)
        ],
        "reason": found.reason,
        "stages": [_stages(kind, large.count(kind), found, named, trouble) for kind in kinds],
        "rejected": [
            {"model": model, "keywords": words} for model, words in found.rejected
        ],
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
