"""Says which queries waited for their driver, when, and what it did, with what helps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from iqcar.base.units import duration, percent
from iqcar.diagnosis import Diagnosis
from iqcar.enums import EVIDENCES, FindingKind
from iqcar.model.waits.driver_kinds import DriverPart, DriverWork
from iqcar.model.waits.driver_time import listeners_late
from iqcar.rules.vocabulary.advice_kinds import advice_kinds
from iqcar.say.finding import About, Finding
from iqcar.say.query_names import QueryNames
from iqcar.say.section import Section, columns
from iqcar.tables.arrays import Floats

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
    rows = np.flatnonzero(idle >= DRIVER_SHARE * np.maximum(about.ran, 1.0))
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
            action=_action(work),
            ranged=(0.1, 1.0),
            section="driver",
        )


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


def _action(work: pd.DataFrame) -> str:
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
