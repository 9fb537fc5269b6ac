"""Says what was read: event logs, the evidence of every wait, when queries ran, settings."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from iqcar.base import limits
from iqcar.base.units import (
    REQUEST_NAMES,
    duration,
    moment,
    percent,
    printable,
    resource_name,
)
from iqcar.diagnosis import Diagnosis
from iqcar.enums import (
    EVIDENCES,
    REQUESTS,
)
from iqcar.logs.text import redact_text
from iqcar.model.doubts import coverage
from iqcar.model.queries.gaps import gaps_of
from iqcar.model.waits.columns import evidence_column
from iqcar.say.section import Section, columns
from iqcar.tables import Tables
from iqcar.version import __version__

_FIRST = {"failed": 0, "truncated": 1, "in_progress": 2, "complete": 3}
_COUNTED = (
    ("tasks", "tasks"),
    ("stages", "stages"),
    ("hosts", "hosts"),
    ("skipped_events", "unknown events"),
    ("malformed_lines", "malformed lines"),
)


def inputs_section(diagnosis: Diagnosis) -> Section:
    """Show what became of each event log, those that could not be read first."""
    rows = sorted(diagnosis.tables.inputs.to_dict("records"), key=lambda row: _FIRST[row["status"]])
    cells = tuple(
        (
            _shown(row["path"]),
            str(row["status"]).replace("_", " "),
            *(_shown(row[name]) for name in ("message", "application_name", "application_id")),
            _shown(row["spark_version"]) or "not recorded",
            *(int(row[name]) for name, _ in _COUNTED),
        )
        for row in rows
    )
    covered, recorded = coverage_section(diagnosis), len(diagnosis.tables.task_records) > 0
    return Section(
        "inputs",
        "Event logs",
        sentence=_sentence(Counter(row["status"] for row in rows), covered, recorded),
        columns=columns(
            "log | status | message | application:name | id:name | Spark",
            *(f"{title}:count" for _, title in _COUNTED),
        ),
        rows=cells,
        caption="What became of each event log",
    ).first(limits.MOST_INPUTS, "more, all read whole or as those above")


def _shown(value: object) -> str:
    return printable(redact_text(str(value)))


def coverage_section(diagnosis: Diagnosis) -> Section:
    """Show how well each wait is known: shares of all task time by evidence, which sum to 1."""
    waits = diagnosis.waits
    life = np.nan_to_num(waits["duration_ms"].to_numpy(np.float64))
    total, rows = life.sum(), []
    for request in REQUESTS if total > 0 else ():
        codes = waits[evidence_column(request)].to_numpy(np.int64)
        shares = np.bincount(codes, life, minlength=len(EVIDENCES)) / total
        name = (REQUEST_NAMES[request], resource_name(request.resource))
        rows.append((*name, *(float(share) for share in shares[::-1])))
    recorded = len(diagnosis.tables.task_records)
    by_plugin = f"; the plugin recorded {recorded:,} tasks" if recorded else ""
    taken = coverage(diagnosis.tables)
    if taken < 1:
        by_plugin += f" and took {percent(taken)} of the wanted samples of their waits"
    return Section(
        "coverage",
        "How well each wait is known",
        columns=columns(
            "waiting for:name | resource", *(f"{one}:share" for one in reversed(EVIDENCES))
        ),
        rows=tuple(rows),
        caption=f"Share of all task time by the evidence of each wait{by_plugin}",
        notes=tuple(f"{one}: {one.sentence}" for one in reversed(EVIDENCES)) if rows else (),
    )


def _sentence(counts: Counter[str], covered: Section, recorded: bool) -> str:
    whole = sum(counts.values())
    logs = "1 event log was" if whole == 1 else f"{whole:,} event logs were"
    bad = [
        f"{counts[status]:,} {word}"
        for status, word in (
            ("failed", "could not be read"),
            ("truncated", "incomplete"),
            ("in_progress", "without an end"),
        )
        if counts[status]
    ]
    text = f"{logs} read whole." if not bad else f"{logs} given: {', '.join(bad)}."
    if not covered.rows:
        return text + " No task ended in them."
    measured = sum(row[2] for row in covered.rows) / len(covered.rows)
    if measured > 0:
        text += f" {percent(measured)} of all waits were measured by the plugin."
    elif recorded:
        text += " The plugin ran, but measured no wait: the doubts say why."
    else:
        text += (
            " No wait was measured: record with the iqcar plugin (iqcar conf) to see waits for "
            "memory and to tell the processor from locks."
        )
    return text


def timeline_sentence(tables: Tables) -> str:
    """Say how long the queries ran, how many at once, and what to do about it."""
    queries = tables.queries
    start = queries["start_ms"].to_numpy(np.float64)
    end = queries["end_ms"].to_numpy(np.float64)
    known = np.isfinite(start) & np.isfinite(end) & (end > start)
    if not known.any():
        return "No query ran for a time that is known."
    start, end = start[known], end[known]
    gaps = gaps_of(tables)
    whole = float(end.max() - start.min()) - sum(gap.left_out_ms for gap in gaps)
    # A query that starts the moment another ends does not run at once with it.
    times = np.concatenate([end, start])
    steps = np.repeat([-1, 1], len(start))
    order = np.argsort(times, kind="stable")
    running = np.cumsum(steps[order])
    most = int(running.max())
    count = len(start)
    ran = "1 query ran" if count == 1 else f"{count:,} queries ran"
    if gaps:
        apart = duration(max(gap.left_out_ms for gap in gaps))
        ran = f"{ran}, in {len(gaps) + 1} times up to {apart} apart (left out here),"
    if most <= 1:
        text = f"{ran} within {duration(whole)}, never two at once: none could be in another's way."
        return text + " Choose one to see when its tasks waited."
    peak = float(times[order][int(running.argmax())])
    when = (
        f"at {moment(peak)}" if gaps else f"{duration(peak - start.min())} after the first started"
    )
    return (
        f"{ran} within {duration(whole)}, at most {most:,} at once ({when}). Choose one to see "
        "when its tasks waited; what need not run at the busiest time can run at another."
    )


def settings_rows(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    """Return versions and settings: name, value, and what the value means."""
    applications, settings = diagnosis.tables.applications, diagnosis.settings
    only = "Only those on the critical path." if settings.critical_path else "All of them."
    return [
        ("iqcar", __version__, ""),
        ("Spark", _distinct(applications["spark_version"].tolist()), ""),
        ("scheduler of the applications", _distinct(applications["scheduler_mode"].tolist()), ""),
        ("what counts as one query", str(settings.query_by), settings.query_by.sentence),
        ("target stages", "", only),
        ("targets, paths and rules shown", str(settings.top), ""),
    ]


def _distinct(values: list[Any]) -> str:
    every = (printable(str(value)) for value in dict.fromkeys(values) if value)
    return ", ".join(every) or "not recorded"
