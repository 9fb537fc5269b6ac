"""Puts the answer to a what-if question in sentences for terminal, page and notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from iqcar.base.units import change_words, duration, percent, run_numbers, short, signed, size
from iqcar.replay.whatif.plan_capacity import Plan
from iqcar.replay.whatif.removal_blame import RemovalBlame
from iqcar.replay.whatif.what_if import RESOURCES, SLOWER, WhatIf
from iqcar.say.section import Section, columns, range_words

NOTICED = 0.01
"""Share of a query's duration from which a change of a wait is named."""
MOST_WAITS = 3
MOST_VALUES = 5
"""Numbers of a capacity plan that its sentence names; the table has all."""


def most_changed(answer: WhatIf, most: int) -> pd.DataFrame:
    """Return the queries that are predicted, those first that change most."""
    said = answer.queries[answer.queries["refused"] == ""]
    change = (said["predicted_ms"] - said["recorded_ms"]).abs()
    return said.loc[change.sort_values(ascending=False, kind="stable").index[:most]]


def told_apart(queries: pd.DataFrame) -> Callable[[dict[str, Any]], str]:
    """Return how queries are called: by name, with the id before it where several share one."""
    ids, names = queries["query_id"].tolist(), queries["name"].tolist()
    times = Counter(names)
    numbers = dict(zip(ids, run_numbers(ids, names), strict=True))

    def called(row: dict[str, Any]) -> str:
        name = str(row["name"])
        return f"{numbers[row['query_id']]} {name}" if times[name] > 1 else name

    return called


def what_if_section(answer: WhatIf, most: int) -> Section:
    """Show the queries that change most, recorded and predicted."""
    called = told_apart(answer.queries)
    rows = tuple(
        (
            called(row),
            row["recorded_ms"],
            row["predicted_ms"],
            range_words(row["low_ms"], row["high_ms"]),
            row["change_percent"],
            waits_of(row),
        )
        for row in most_changed(answer, most).to_dict("records")
    )
    left = answer.total["queries"] - len(rows)
    return Section(
        "whatif-queries",
        answer.question.sentence(),
        columns=columns(
            "query:name | recorded:time | predicted:time | range (80 %) | change:relative", "waits"
        ),
        rows=rows,
        caption="Queries, those first that change most; waits that change by more than 1 % of "
        "the run",
        notes=(f"{left:,} more change less: iqcar whatif --json has all.",) if left > 0 else (),
    )


def plan_section(plan: Plan) -> Section:
    """Show what each number of executors or slots would take."""
    cost = [] if plan.price is None else ["cost:number"]
    rows = []
    for row in plan.values.to_dict("records"):
        notes = ["knee: more gains little"] if row["value"] == plan.knee else []
        notes += ["as recorded"] if row["value"] == plan.recorded else []
        rows.append(
            (
                f"{row['value']:,}",
                row["total_ms"],
                range_words(row["low_ms"], row["high_ms"]),
                row["p80_ms"],
                row["makespan_ms"],
                "unknown" if row["slot_use"] is None else row["slot_use"],
                *([row["cost"]] if cost else []),
                ", ".join(notes),
            )
        )
    return Section(
        "whatif-plan",
        f"Each number of {plan.of_what}",
        columns=columns(
            plan.of_what,
            "all queries:time",
            "range (80 %)",
            "p80:time",
            "first to last:time",
            "slots used:share",
            *cost,
            "note",
        ),
        rows=tuple(rows),
        caption="What all queries together would take",
    )


def removal_section(blame: RemovalBlame) -> Section:
    """Show what each other query cost one, by replay and by attribution."""
    called = told_apart(blame.sources)
    return Section(
        "whatif-blame",
        "Who made it wait, by replays without the others",
        sentence=removal_sentence(blame),
        columns=columns(
            "query:name | cost:change | gain without it:change | attributed:time | note"
        ),
        rows=tuple(
            (
                called(row),
                row["shapley_ms"],
                row["without_ms"],
                row["attributed_ms"],
                "the two disagree" if row["disagrees"] else "",
            )
            for row in blame.sources.to_dict("records")
        ),
        caption="Cost is the Shapley value: all costs sum to what the others cost together",
        notes=() if len(blame.sources) else ("No other query ran beside it.",),
    )


def plan_words(plan: Plan) -> str:
    """Say what some numbers come to beside the recorded one: ``4 slots −29 %, 6 slots −38 %``."""
    values = plan.values[plan.values["total_ms"].notna()]
    recorded = values[values["value"] == plan.recorded]["total_ms"]
    others = values[values["value"] != plan.recorded]
    at = np.unique(np.linspace(0, len(others) - 1, min(len(others), MOST_VALUES)).round())
    base = float(recorded.iloc[0]) if len(recorded) else 0.0
    said = ", ".join(
        f"{row['value']:,} {plan.of_what} "
        + (change_words(100 * (row["total_ms"] / base - 1)) if base else duration(row["total_ms"]))
        for row in others.iloc[at.astype(int)].to_dict("records")
    )
    return f"Beside {plan.recorded} {plan.of_what} as recorded: {said or 'nothing is known'}."


def plan_sentence(plan: Plan) -> str:
    """Say where more gains little, and what the run had."""
    knee = f"; the knee is at {plan.knee}" if plan.knee else f"; more {plan.of_what} gain nothing"
    return f"{plan_words(plan).rstrip('.')}{knee}"


def removal_sentence(blame: RemovalBlame) -> str:
    """Say what the others cost a query."""
    return (
        f"{short(blame.target)}: {duration(blame.duration_ms)}, without the others "
        f"{duration(blame.alone_ms)}; they cost {signed(blame.duration_ms - blame.alone_ms)}"
    )


def check_sentence(check: dict[str, Any]) -> str:
    """Say how well the replay of the run as it was reproduces it."""
    if check["median"] is None:
        return "self-check: no query ended, so nothing can be held against the replay"
    worst = ""
    if check["worst"] > 2 * check["median"]:
        worst = f", {percent(check['worst'])} at worst ({short(check['query'])})"
    return (
        "self-check: the replay of the run as it was is off by "
        f"{_share(check['median'])} (median){worst}"
    )


def _share(share: float) -> str:
    return percent(share, 1) if share < 0.1 else percent(share)


def capacity_words(answer: WhatIf) -> str:
    """List what devices can do, how that is known, and how busy they were and would be."""
    found = []
    for row in answer.capacities.to_dict("records"):
        value, unit = row["value"], row["unit"]
        text = f"{size(value)}/s" if unit == "bytes/s" else f"{value:g}"
        busy = f"{percent(row['busy_before'])} → {percent(row['busy_after'])} busy"
        found.append(f"{row['resource']} {text} per host ({row['evidence']}, {busy})")
    return ", ".join(found) or "no device was used"


def waits_of(row: dict[str, float]) -> str:
    """Name the waits of a query that change most, before and after."""
    found = []
    for resource in RESOURCES:
        before, after = row[f"{resource}_wait_before_ms"], row[f"{resource}_wait_after_ms"]
        change = abs(after - before)
        if np.isfinite(change) and change >= NOTICED * row["recorded_ms"]:
            found.append((change, f"{resource} {duration(before)} → {duration(after)}"))
    return ", ".join(text for _, text in sorted(found, reverse=True)[:MOST_WAITS])


def total_lines(answer: WhatIf) -> list[str]:
    """Say what it comes to for all queries, who gets slower, and the new bottleneck."""
    total = answer.total
    lines = [
        f"all {total['queries']} queries: {duration(total['recorded_ms'])} → "
        f"{duration(total['predicted_ms'])} ({duration(total['low_ms'])} … "
        f"{duration(total['high_ms'])})  {change_words(total['change_percent'])}; "
        f"from first to last {duration(total['makespan_before_ms'])} → "
        f"{duration(total['makespan_after_ms'])}"
    ]
    slower = answer.queries[answer.queries["change_percent"] > 100 * SLOWER]
    if len(slower):
        worst = slower.sort_values("change_percent", ascending=False).iloc[0]
        count = f"{len(slower)} quer{'y gets' if len(slower) == 1 else 'ies get'}"
        lines.append(
            f"{count} slower by more than {percent(SLOWER)}, most {short(worst['name'])} "
            f"({change_words(worst['change_percent'])})"
        )
    busiest = bottleneck(answer)
    if busiest:
        lines.append(busiest)
    return lines


def bottleneck(answer: WhatIf) -> str:
    """Say which device is busiest afterwards, where it is another one than before."""
    devices = answer.capacities
    if devices.empty:
        return ""
    before = devices["resource"].iloc[int(devices["busy_before"].argmax())]
    after = devices["resource"].iloc[int(devices["busy_after"].argmax())]
    if before == after:
        return ""
    return f"the busiest device is then {after}, not {before}"
