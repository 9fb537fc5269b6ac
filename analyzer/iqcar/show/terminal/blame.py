"""One query level by level, in plain words: what ``iqcar blame`` prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text

from iqcar.base.units import REQUEST_NAMES, duration, percent, printable, resource_name, short
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Request
from iqcar.say import Target, find_verdict
from iqcar.say.sentences import wait_words
from iqcar.say.straggler_sections import link_lines
from iqcar.show.terminal.analyze import blame_table
from iqcar.show.terminal.layout import indented, print_doubts, terminal


def print_levels(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Print the levels of iQC-Graph for each target: query, stages, resources, hosts, sources."""
    console = console or terminal()
    verdict = find_verdict(diagnosis)
    for target in verdict.targets:
        wasted = [line.sentence for line in verdict.wasted if line.query == target.query]
        _print_target(diagnosis, target, wasted, console)
    print_doubts(verdict.doubts, console)


LEVEL_TITLES = (
    "Which of its stages lost the time",
    "What those stages waited for",
    "In which way, and on which host",
    "Whose stages were in the way there",
    "Those stages, wherever they were in the way",
    "Which queries that makes",
)
"""Of levels 1 to 6."""


def _print_target(
    diagnosis: Diagnosis, finding: Target, wasted: Iterable[str], console: Console
) -> None:
    target, lost = finding.query, finding.lost_ms
    console.print(Text(f"{finding.name}  {finding.query_id}", style="bold"))
    _line(console, f"It {finding.summary}.")
    _line(console, f"Its tasks waited: {wait_words(diagnosis, target)}.")
    for line in link_lines(diagnosis.stragglers, diagnosis.topics, target):
        _line(console, printable(f"{line[0].upper()}{line[1:]}."))
    for sentence in wasted:
        _line(console, f"Wasted work: {sentence}")
    if lost <= 0:
        _line(console, "No time was lost that could be measured, so there is nobody to blame.")
        console.print()
        return
    top = diagnosis.settings.top
    graph = diagnosis.graph
    critical = diagnosis.tables.stages["critical"].to_numpy(bool)

    _title(console, 1)
    for row in _largest(graph.top(1, top, target)):
        on_path = "on the critical path" if critical[row["stage"]] else "beside the critical path"
        _line(console, f"{_amount(row, lost)}  {short(row['label'], 60)}, {on_path}")

    _title(console, 2)
    for row in _largest(graph.top(2, top, target)):
        _line(
            console,
            f"{_amount(row, lost)}  {resource_name(row['resource'])}{_of_stage(diagnosis, row)}",
        )

    _title(console, 3)
    for row in _largest(graph.top(3, top, target)):
        what = REQUEST_NAMES[Request(row["request"])]
        where = diagnosis.tables.hosts["host"].iloc[row["host"]] if row["host"] >= 0 else "unknown"
        request = f"waiting for {what} on {printable(where)}"
        _line(console, f"{_amount(row, lost)}  {request}{_of_stage(diagnosis, row)}")

    _title(console, 4)
    for row in _largest(graph.top(4, top, target)):
        what = f"{short(row['label'], 80)}, in the way of stage"
        stage = diagnosis.tables.stages["stage_id"].iloc[row["stage"]]
        _line(console, f"{_amount(row, lost)}  {what} {stage}")

    _title(console, 5)
    by_stage = graph.dor_by_target(5)
    _sources(by_stage, target, graph.vertices(5), lost=lost, top=top, console=console)

    _title(console, 6)
    console.print(indented(blame_table(finding.blamed)))
    console.print()


def _sources(
    pairs: pd.DataFrame,
    target: int,
    vertices: pd.DataFrame,
    lost: float,
    top: int,
    console: Console,
) -> None:
    mine = pairs[(pairs["target_query"] == target).to_numpy()]
    mine = mine.iloc[np.argsort(-mine["lost_ms"].to_numpy(), kind="stable")].head(top)
    labels = vertices["label"].tolist()
    for row in mine.to_dict("records"):
        if row["lost_ms"] > 0:
            _line(console, f"{_amount(row, lost)}  {short(labels[row['source']], 90)}")


def _largest(vertices: pd.DataFrame) -> list[dict[Any, Any]]:
    return [row for row in vertices.to_dict("records") if row["lost_ms"] > 0]


def _amount(row: dict[Any, Any], lost: float) -> str:
    part = float(row["lost_ms"])
    return f"{duration(part):>8}  {percent(part / lost):>5}"


def _of_stage(diagnosis: Diagnosis, row: dict[Any, Any]) -> str:
    stage = int(row["stage"])
    return f", stage {diagnosis.tables.stages['stage_id'].iloc[stage]}"


def _title(console: Console, level: int) -> None:
    console.print()
    console.print(Text(f"   Level {level}. {LEVEL_TITLES[level - 1]}", style="italic"))


def _line(console: Console, words: str) -> None:
    console.print(indented(words))
