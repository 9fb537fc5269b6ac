"""Says which tasks were stragglers: by cause, stage, query and host, and the most delayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

import pandas as pd

from iqcar.base.limits import MOST_BLAMED_FOR_CAUSE, NAME_CHARACTERS
from iqcar.base.units import duration, percent, printable, short
from iqcar.causes.stragglers.straggler_result import UNEXPLAINED, Stragglers, by_cause, by_group
from iqcar.rules.vocabulary.topics import straggler_cause, what_helps
from iqcar.say.blamed import blamed_name
from iqcar.say.section import Section, columns

GROUPS = ("stage", "query", "host")
CAUSE_WIDTH = 40
NOTHING = "nothing recorded explains it"
WHAT_TO_DO = "What to do (advice to people; no pool is made from it)"


@dataclass(frozen=True)
class StragglerLines:
    """A straggler in words; every text is printable.

    Attributes
    ----------
    task, rest : str
        Which task, and how long it took, where.
    causes : tuple of (str, str)
        Name of each cause, and its evidence with who is blamed; empty if nothing explains it.
    unexplained : str
        What is known of its time where nothing explains it.
    """

    task: str
    rest: str
    causes: tuple[tuple[str, str], ...]
    unexplained: str


def headline(found: Stragglers, mine: pd.DataFrame, tasks: int) -> str:
    """Say how many of these tasks were stragglers, by how much, and how many are explained."""
    times = f"{found.settings.straggler:g} times"
    if not len(mine):
        return f"none of {tasks:,} tasks took more than {times} its stage's median"
    explained = int((mine["causes"] > 0).sum())
    return (
        f"{len(mine):,} of {tasks:,} tasks took more than {times} their stage's median, "
        f"{duration(float(mine['delay_ms'].sum()))} over it in all; causes found for {explained:,}"
    )


def causes_section(found: Stragglers, app: int | None = None) -> Section:
    """Count stragglers per cause, of all applications or one; the unexplained come last."""
    frame = by_cause(found, app)
    unexplained = (frame["cause"] == UNEXPLAINED).to_numpy()
    rows = []
    for row in pd.concat([frame[~unexplained], frame[unexplained]]).to_dict("records"):
        known = straggler_cause(row["cause"])
        rows.append((known.name, int(row["stragglers"]), float(row["delay_ms"]), known.sentence))
    return Section(
        "causes",
        "Causes",
        columns=columns("cause:name | stragglers:count | over the median:time | what it means"),
        rows=tuple(rows),
        caption="Stragglers by cause; one with two causes counts in both",
        advice=straggler_advice(found, app),
    )


def straggler_advice(found: Stragglers, app: int | None = None) -> tuple[tuple[str, str], ...]:
    """Return name and advice of each cause that something helps against."""
    keys = [key for key in by_cause(found, app)["cause"].tolist() if key]
    named = ((straggler_cause(key).name, what_helps(key, found)) for key in keys)
    return tuple((printable(name), printable(helps)) for name, helps in named if helps)


def group_section(
    found: Stragglers, group: str, names: Mapping[int, str], app: int | None = None
) -> Section:
    """Count stragglers per stage, query or host.

    Parameters
    ----------
    found : Stragglers
    group : str
        One of :data:`GROUPS`.
    names : mapping of int to str
        What to call each query, by row; by default as the labels do.
    app : int, optional
        Row of one application.
    """
    labels = found.labels
    name = {"stage": labels.stage, "host": labels.host, "query": labels.query}[group]
    frame = by_group(found, group, app)
    rows = []
    for row in frame[(frame[group] >= 0).to_numpy()].to_dict("records"):
        called = names.get(row[group]) if group == "query" else None
        causes = {straggler_cause(key).name: n for key, n in row["causes"].items()}
        share = row["stragglers"] / row["tasks"]
        rows.append((called or name(row[group]), row["stragglers"], share, row["delay_ms"], causes))
    return Section(
        f"stragglers-by-{group}",
        {"stage": "Stages", "query": "Queries", "host": "Hosts"}[group],
        columns=columns(
            f"{group}:name",
            "stragglers:count",
            "of tasks:share",
            "over the median:time",
            "causes:counts",
        ),
        rows=tuple(rows),
        caption=f"Stragglers by {group}",
    )


def straggler_lines(
    found: Stragglers, shown: pd.DataFrame, names: Mapping[int, str]
) -> list[StragglerLines]:
    """Put stragglers into words, each with its causes, and whom iQCAR blames for them."""
    labels, causes = found.labels, found.causes
    mine = causes[causes["straggler"].isin(shown.index)]
    by_straggler: dict[int, list[tuple[str, str]]] = {}
    for number, cause in zip(mine.index.tolist(), mine.to_dict("records"), strict=True):
        name = printable(straggler_cause(cause["cause"]).name)
        said = printable(cause["sentence"]).removeprefix(f"{name} ")
        if blamed := _blamed(found, number):
            said += f"; iQCAR blames {blamed}"
        by_straggler.setdefault(int(cause["straggler"]), []).append((name, said))
    lines = []
    for row, one in zip(shown.index.tolist(), shown.to_dict("records"), strict=True):
        query = names.get(one["query"]) or labels.query(one["query"])
        host = labels.host(one["host"])
        words = (
            f"took {duration(one['duration_ms'])} where the median is "
            f"{duration(one['median_ms'])}: {short(labels.stage(one['stage']), NAME_CHARACTERS)}"
        )
        words += f", query {short(query, CAUSE_WIDTH)}" if query else ""
        words += f", on {short(host, CAUSE_WIDTH)}" if host else ""
        task = short(labels.task(one["task"], one["task_id"]), CAUSE_WIDTH)
        known = tuple(by_straggler.get(row, []))
        lines.append(StragglerLines(task, words, known, "" if known else _time_went(one)))
    return lines


def _time_went(one: Mapping[Any, Any]) -> str:
    """Say how an unexplained straggler spent its time, as far as Spark records it."""
    ran, computed = float(one["run_ms"]), float(one["cpu_ms"])
    if isnan(ran):
        return NOTHING
    cpu = "CPU time unknown" if isnan(computed) else f"{duration(computed)} on the processor"
    return f"{NOTHING}: its code ran {duration(ran)}, {cpu}"


def _blamed(found: Stragglers, cause: int) -> str:
    mine = found.sources[found.sources["cause"] == cause].head(MOST_BLAMED_FOR_CAUSE)
    return ", ".join(
        f"{blamed_name(row['kind'], found.labels.query(int(row['query'])), CAUSE_WIDTH)} "
        f"{percent(row['share'])}"
        for row in mine.to_dict("records")
    )
