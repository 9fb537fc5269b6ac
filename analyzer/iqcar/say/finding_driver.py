"""Finds waits for drivers: planning, what lies between stages, and results that are collected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from iqcar.base.units import duration, percent, size
from iqcar.diagnosis import Diagnosis
from iqcar.enums import EVIDENCES, FindingKind
from iqcar.model.waits.driver_time import DriverPart, DriverWork, listeners_late
from iqcar.rules.actions import Remedy
from iqcar.rules.vocabulary import advice_kinds
from iqcar.say.blamed import QueryNames
from iqcar.say.finding import About, Finding
from iqcar.say.section import Section, columns
from iqcar.tables.arrays import Floats, known_or_zero, positive_or_zero, sum_by

DRIVER_SHARE = 0.15
"""Share of a query's run from which on time in the driver is worth looking at: planning, and what
is between two jobs, take some."""
NAMED_SHARE = 0.1
"""Share of the time in the driver from which on a kind of work, or a part, is named."""
SHOWN_MS = 1_000.0
"""Time in the driver from which on a query is listed."""

_SMALLER = (
    "Make the plan smaller: fewer unions, columns and nested queries, or write an intermediate "
    "result to a table."
)
_ACTIONS = {
    DriverWork.ANALYSIS: "Keep table and file lists in a catalog that answers quickly, and the "
    "plan small.",
    DriverWork.OPTIMIZATION: _SMALLER,
    DriverWork.PLANNING: _SMALLER,
    DriverWork.COMPILING: _SMALLER,
    DriverWork.LISTING: "Read fewer and larger files: compact small ones, filter by partition, or "
    "keep them in a table format that lists its files.",
    DriverWork.BROADCAST: "Broadcast less: filter the small side, or lower "
    "spark.sql.autoBroadcastJoinThreshold.",
    DriverWork.COMMIT: "Write fewer files, and use a committer that does not rename them.",
}
_LOOK = {
    DriverPart.BEFORE_FIRST_JOB: "Look at what the driver does there: planning, subqueries, "
    "listing files, the catalog.",
    DriverPart.BETWEEN_JOBS: "Look at what the driver does there: planning again, collect(), "
    "broadcasts, code between two actions.",
    DriverPart.AFTER_LAST_TASK: "Look at what the driver does there: committing output, "
    "collecting the result.",
}


def driver_findings(about: About) -> Iterator[Finding]:
    """SQL queries that spent much of their time in the driver."""
    driver = about.diagnosis.driver
    idle = np.nan_to_num(driver.total)
    much = (idle >= DRIVER_SHARE * np.maximum(about.ran, 1.0)) & (_collected(about) < LARGE_RESULT)
    rows = np.flatnonzero(much)
    for runs in about.grouped(rows.tolist(), idle[rows]):
        worst = max(runs, key=lambda row: runs[row])
        work = driver.work[driver.work["query"].isin(list(runs)).to_numpy(bool)]
        spent = sum(runs.values())
        share = spent / float(about.run_of[about.recurring[worst]])
        yield about.finding(
            FindingKind.DRIVER,
            runs,
            sentence=f"{percent(share)} of {about.called(worst)}, {about.of_run(spent, worst)}, "
            f"passes in the driver: {_when(work)}. {_before(driver.early, runs, spent)}"
            "More executors do not help.",
            action=Remedy(_driver_action(work)),
            ranged=(0.1, 1.0),
            section="driver",
        )


LARGE_RESULT = 16.0 * 2**20
"""Bytes of a result from which on it is worth asking why it is collected."""


def _collected(about: About) -> Floats:
    """Return the bytes that the tasks of each query sent to the driver."""
    tasks = about.tables.tasks
    query = tasks["query"].to_numpy(np.int64)
    known = query >= 0
    sent = positive_or_zero(tasks["result_bytes"].to_numpy(np.float64))
    return sum_by(query[known], sent[known], len(about.ran))


def collect_findings(about: About) -> Iterator[Finding]:
    """Queries whose large result came to the driver.

    What a client does with it is in no log: at most the time to the application's next query.
    """
    sent = _collected(about)
    rows = np.flatnonzero(sent >= LARGE_RESULT)
    if not len(rows):
        return
    tasks = about.tables.tasks
    query = tasks["query"].to_numpy(np.int64)
    fetched = np.zeros(len(about.ran))
    getting = known_or_zero(tasks["getting_result_ms"].to_numpy(np.float64))
    np.maximum.at(fetched, query[query >= 0], getting[query >= 0])
    after = list(DriverPart).index(DriverPart.AFTER_LAST_TASK)
    spent = fetched + np.nan_to_num(about.diagnosis.driver.parts[:, after])
    gap = _until_next(about)
    for runs in about.grouped(rows.tolist(), spent[rows]):
        worst = max(runs, key=lambda row: runs[row])
        low, unseen = sum(runs.values()), float(gap[list(runs)].sum())
        python = {"python"} if "python" in about.place(worst).holds else set()
        finding = about.finding(
            FindingKind.COLLECT,
            runs,
            sentence=f"{about.called(worst)} brought {size(sent[worst])} to the driver, which took "
            f"{duration(low)} of its run. What the client does with it is in no log: nothing else "
            f"ran for {duration(unseen)} afterwards.",
            action=about.place(worst).action("collect", python),
            section="driver",
        )
        # Rows that are not collected need not be made ready for it, either.
        most = float(about.ran[list(runs)].sum()) + unseen
        saves = low + unseen / 2.0
        yield replace(
            finding, low_ms=low, high_ms=most, saves_ms=saves, share=saves / max(most, 1.0)
        )


def _until_next(about: About) -> Floats:
    """Return the time from the end of each query to its application's next start, or end."""
    queries, apps = about.tables.queries, about.tables.applications
    app = queries["app"].to_numpy(np.int64)
    start, end = (queries[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    gap: Floats = apps["end_ms"].to_numpy(np.float64)[app] - end
    for one in np.unique(app).tolist():
        mine = np.flatnonzero(app == one)
        starts = np.sort(start[mine])
        at = np.searchsorted(starts, end[mine])
        after = np.append(starts, np.inf)[at]
        gap[mine] = np.minimum(gap[mine], after - end[mine])
    return gap.clip(min=0.0)


def _before(early: Floats, runs: Iterable[int], spent: float) -> str:
    """Say what was planned before the query's start, where that is much."""
    planned = float(np.nansum(early[list(runs)]))
    if planned < max(NAMED_SHARE * spent, SHOWN_MS):
        return ""
    return f"It was planned for {duration(planned)} more before that run. "


def _when(work: pd.DataFrame) -> str:
    """``4.0 s before its first stage (listing 1,200 files 3.1 s, not recorded 0.9 s)``."""
    said = []
    for part, rows in work.groupby("part", sort=False):
        time = float(rows["time_ms"].sum())
        if time < NAMED_SHARE * work["time_ms"].sum():
            continue
        did = _did(rows)
        of = f" ({did})" if did else ""
        said.append((time, f"{duration(time)} {DriverPart(part).words}{of}"))
    return ", ".join(text for _, text in sorted(said, reverse=True))


def _did(rows: pd.DataFrame) -> str:
    """What is recorded of it, and how long it took; empty where nothing is."""
    by_work = rows.groupby("work")["time_ms"].sum().sort_values(ascending=False)
    by_work = by_work[(by_work >= NAMED_SHARE * by_work.sum()).to_numpy(bool)]
    if list(by_work.index) == [DriverWork.OTHER]:
        return ""
    files = rows.groupby("work")["files"].sum(min_count=1)
    named = []
    for work, time in by_work.items():
        words = DriverWork(work).words
        if files[work] >= 1:
            words = words.replace("files", f"{files[work]:,.0f} files")
        named.append(f"{words} {duration(float(time))}")
    return ", ".join(named)


def _driver_action(work: pd.DataFrame) -> str:
    """What helps against most of the time."""
    times = work.groupby(["work", "part"])["time_ms"].sum()
    kind, part = times.idxmax()
    relieve = advice_kinds()["relieve-driver"].do
    if kind == DriverWork.SCHEDULING:
        return relieve
    return _ACTIONS.get(kind) or f"{_LOOK[part]} {relieve}"


def driver_section(diagnosis: Diagnosis, most: int) -> Section:
    """Show when queries waited for their driver, and what it did."""
    driver = diagnosis.driver
    total, ran = driver.total, diagnosis.tables.queries["duration_ms"].to_numpy(np.float64)
    names = QueryNames(diagnosis.tables.queries)
    order = np.argsort(-np.nan_to_num(total), kind="stable")
    listed = [row for row in order.tolist() if total[row] >= SHOWN_MS]
    work = dict(list(driver.work.groupby("query")))
    known = int(np.isfinite(total).sum())
    return Section(
        "driver",
        "In the driver",
        sentence=f"{duration(float(np.nansum(total)))} passed in the driver while no stage of a "
        f"query ran or waited ({known:,} of {len(total):,} queries have it recorded)."
        if known
        else "The log does not tell what passed in the driver: no SQL query ended in it.",
        columns=columns(
            "query:name | in the driver:time | of its run:share",
            *(f"{part.words}:time" for part in DriverPart),
            "+planned before its start:time | what it did:times | +evidence",
        ),
        rows=tuple(
            (
                names.called(row),
                float(total[row]),
                float(total[row] / ran[row]),
                *driver.parts[row].tolist(),
                float(driver.early[row]) if np.isfinite(driver.early[row]) else None,
                {
                    DriverWork(one).words: float(time)
                    for one, time in work[row]
                    .groupby("work")["time_ms"]
                    .sum()
                    .sort_values(ascending=False)
                    .items()
                },
                _evidence(work[row]["evidence"]),
            )
            for row in listed
        ),
        notes=_late(diagnosis),
        caption="Time of SQL queries in which no stage ran or waited for slots",
    ).first(most)


def _late(diagnosis: Diagnosis) -> tuple[str, ...]:
    late = listeners_late(diagnosis.tables)
    if not late >= SHOWN_MS:
        return ()
    return (
        f"Spark's listeners were up to {duration(late)} late: so late are executors asked for, and "
        "the UI.",
    )


def _evidence(found: Iterable[str]) -> str:
    told = set(found)
    return ", ".join(str(one) for one in EVIDENCES if str(one) in told)
