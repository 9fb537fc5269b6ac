"""The diagnosis as text on a terminal: what ``iqcar analyze`` and ``iqcar queries`` print."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import numpy as np
from rich.console import Console, Group
from rich.padding import Padding
from rich.text import Text

from iqcar.enums import BlameKind, Resource
from iqcar.formatting import breakdown, duration, percent, printable, resource_name, short
from iqcar.report.json.straggler_links import link_lines
from iqcar.report.terminal.advice_section import advice_section
from iqcar.report.terminal.plain_table import plain_table
from iqcar.report.terminal.straggler_section import straggler_section
from iqcar.report.terminal.topic_section import topic_section
from iqcar.rules import scheduler_rules
from iqcar.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType
    from rich.table import Table

    from iqcar.diagnosis import Diagnosis
    from iqcar.replay import Expected

MAX_SOURCES = 8
"""Blamed queries shown per target; what is left is summed in one row."""

WIDTH_WITHOUT_TERMINAL = 118
"""Characters per line when the output goes to a file or a pipe."""


def terminal(file: IO[str] | None = None) -> Console:
    """Return a console on standard output or a file, wide enough for tables off a terminal.

    Names come from logs: nothing in them is taken for markup.
    """
    plain = {"highlight": False, "markup": False, "emoji": False, "file": file}
    console = Console(**plain)  # type: ignore[arg-type]
    if not console.is_terminal:
        console = Console(width=WIDTH_WITHOUT_TERMINAL, **plain)  # type: ignore[arg-type]
    return console


def print_diagnosis(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Print targets with their blame, then resources, hosts, aggressive queries, rules, doubts."""
    console = console or terminal()
    _headline(diagnosis, console)
    if not diagnosis.targets:
        console.print("No query lost time that could be measured.")
    for rank, target in enumerate(diagnosis.targets, 1):
        _target(diagnosis, target, rank, console)
    graph, top = diagnosis.graph, diagnosis.settings.top
    _section(console, "Hot resources", _hot_resources(graph.hot_resources()))
    _section(console, "Slow nodes", _slow_nodes(graph.slow_nodes().head(top)))
    _section(console, "Aggressive queries", _aggressive(diagnosis, top))
    _section(console, "Stragglers", straggler_section(diagnosis.stragglers, top))
    _section(console, "Topics", topic_section(diagnosis.topics, top))
    _section(console, "Scheduler rules", _rules(diagnosis))
    _section(console, "Advice", advice_section(diagnosis.rules))
    _doubts(diagnosis, console)


def print_queries(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Print one row per query, by application, in the order in which they started."""
    console = console or terminal()
    _headline(diagnosis, console)
    queries = diagnosis.queries
    several = len(diagnosis.tables.applications) > 1
    waits = [f">{resource_name(r)}" for r in Resource]
    table = plain_table("query", "name", ">ran", ">lost", ">tasks", *waits)
    order = np.lexsort((queries["start_ms"].to_numpy(), queries["app"].to_numpy()))
    app = None
    for query in queries.iloc[order].to_dict("records"):
        application, _, number = query["query_id"].rpartition("/")
        if several and application != app:
            app = application
            table.add_row(Text(short(application), style="italic"))
        ran = duration(query["duration_ms"])
        table.add_row(
            short(number, 20),
            short(query["name"], 20),
            ran if query["ended"] else f"{ran} …",
            _of(query["lost_ms"], query["duration_ms"]),
            str(query["tasks"]),
            *(duration(query[f"{resource}_wait_ms"]) for resource in Resource),
        )
    console.print(table)
    console.print(
        "Lost is elapsed time; slots to IO are waits, in task time summed over a query's tasks. "
        "… had not ended. Look at one with: iqcar blame PATH --target QUERY"
    )
    _doubts(diagnosis, console)


def _headline(diagnosis: Diagnosis, console: Console) -> None:
    tables = diagnosis.tables
    counts = (
        (len(tables.applications), "application"),
        (len(tables.queries), "query"),
        (int(tables.inputs["tasks"].sum()), "task"),
        (len(set(tables.tasks["host"].tolist()) - {-1}), "host"),
    )
    line = ", ".join(f"{n:,} {_plural(word, n)}" for n, word in counts)
    console.print(Text(f"iqcar {__version__}: {line}"))


def _plural(word: str, n: int) -> str:
    if n == 1:
        return word
    return "queries" if word == "query" else f"{word}s"


def _target(diagnosis: Diagnosis, target: int, rank: int, console: Console) -> None:
    query = diagnosis.queries.iloc[target]
    lost, ran = float(query["lost_ms"]), float(query["duration_ms"])
    console.print()
    title = Text(f"{rank}. {short(query['name'])}", style="bold")
    title.append(f"  {printable(query['query_id'])}", style="dim")
    console.print(title)
    line = f"ran {duration(ran)} and lost {_of(lost, ran)}, {loss_split(query)}"
    if not query["ended"]:
        line += "; it had not ended"
    console.print(Padding(Text(line), (0, 0, 0, 3)))
    console.print(Padding(Text(f"task time waited: {wait_line(diagnosis, target)}"), (0, 0, 0, 3)))
    for line in link_lines(diagnosis.stragglers, diagnosis.topics, target):
        console.print(Padding(Text(printable(line)), (0, 0, 0, 3)))
    console.print(Padding(blame_table(diagnosis.graph.blame_of(target)), (0, 0, 0, 3)))


def loss_split(query: pd.Series) -> str:
    """Tell how much of a query's lost time was lost to other queries."""
    others = float(query["lost_to_others_ms"])
    return (
        f"{_of(others, query['duration_ms'])} of it to other queries"
        if others
        else ("none of it to other queries")
    )


def wait_line(diagnosis: Diagnosis, query: int) -> str:
    """One line: a query's task waits by resource, each with its evidence."""
    size = len(Resource)
    rows = diagnosis.query_waits.iloc[query * size : (query + 1) * size]
    parts = []
    for wait in rows.to_dict("records"):
        name = resource_name(wait["resource"])
        if np.isnan(wait["wait_ms"]):
            parts.append(f"{name} not recorded")
            continue
        doubt = wait["evidence"]
        if wait["missing_share"] > 0.005:
            doubt += f", unknown for {percent(wait['missing_share'])} of task time"
        parts.append(f"{name} {duration(wait['wait_ms'])} ({doubt})")
    return " · ".join(parts)


def blame_table(blame: pd.DataFrame) -> Table:
    """Whom one target's lost time is put down to, the largest part first."""
    table = plain_table(
        "who was in the way", ">lost", ">of the loss", ">of its run", "waiting for", "where"
    )
    rows = [part for row in blame.to_dict("records") for part in _told_apart(row)]
    shown, rest = rows[:MAX_SOURCES], rows[MAX_SOURCES:]
    for row in shown:
        table.add_row(
            Text(_source_name(row), style="" if row["kind"] == "query" else "dim"),
            duration(row["lost_ms"]),
            percent(row["share"]),
            percent(row["share_of_duration"]),
            breakdown({resource_name(k): v for k, v in row["by_resource"].items()}),
            _where(row["by_host"]),
        )
    if rest:
        table.add_row(
            Text(f"{len(rest)} more", style="dim"),
            duration(sum(r["lost_ms"] for r in rest)),
            percent(sum(r["share"] for r in rest)),
            percent(sum(r["share_of_duration"] for r in rest)),
        )
    return table


_CAUSES = {
    "own": "itself (its own tasks)",
    "unattributed": "unattributed",
}
_KNOWN = {
    Resource.SLOTS.value: "no executors yet",
    Resource.CPU.value: "garbage collection",
}
"""What is known to have held up a query without anybody's doing, by resource."""


def _told_apart(row: dict[Any, Any]) -> list[dict[Any, Any]]:
    """One row for each known cause: they have nothing in common but that nobody is to blame."""
    if row["kind"] != BlameKind.KNOWN.value or not row["lost_ms"] > 0:
        return [row]
    parts = []
    for resource, ms in row["by_resource"].items():
        share = ms / row["lost_ms"]
        parts.append(
            row
            | {
                "source_name": _KNOWN.get(resource, "known causes"),
                "lost_ms": ms,
                "share": row["share"] * share,
                "share_of_duration": row["share_of_duration"] * share,
                "by_resource": {resource: ms},
            }
        )
    return parts


def _source_name(row: dict[Any, Any]) -> str:
    if row["kind"] != "query":
        return _CAUSES.get(row["kind"]) or str(row["source_name"])
    return f"{short(row['source_name'], 32)} {printable(row['source_query_id'].rsplit('/', 1)[-1])}"


def _where(by_host: dict[str, float], shown: int = 2) -> str:
    total = sum(by_host.values())
    if total <= 0:
        return ""
    if len(by_host) == 1:
        return printable(next(iter(by_host)))
    hosts = [
        f"{printable(host)} {percent(ms / total)}" for host, ms in list(by_host.items())[:shown]
    ]
    more = len(by_host) - shown
    return ", ".join(hosts) + (f", {more} more" if more > 0 else "")


def _of(part_ms: float, whole_ms: float) -> str:
    share = f" ({percent(part_ms / whole_ms)})" if whole_ms > 0 and part_ms > 0 else ""
    return duration(part_ms) + share


def _section(console: Console, title: str, content: RenderableType | None) -> None:
    if content is None:
        return
    console.print()
    console.print(Text(title, style="bold"))
    console.print(Padding(content, (0, 0, 0, 3)))


def _hot_resources(frame: pd.DataFrame) -> Table | None:
    frame = frame[frame["lost_ms"] > 0]
    if len(frame) == 0:
        return None
    table = plain_table("resource", ">lost to it", ">of all lost time", ">queries hit")
    for row in frame.to_dict("records"):
        table.add_row(
            resource_name(row["resource"]),
            duration(row["lost_ms"]),
            percent(row["share"]),
            str(row["targets"]),
        )
    return table


def _slow_nodes(frame: pd.DataFrame) -> Table | None:
    frame = frame[frame["lost_ms"] > 0]
    if len(frame) == 0:
        return None
    table = plain_table(
        "host", ">lost there", ">of all lost time", ">of it for slots", "mostly for"
    )
    for row in frame.to_dict("records"):
        table.add_row(
            printable(row["host"]),
            duration(row["lost_ms"]),
            percent(row["share"]),
            duration(row["slots_lost_ms"]),
            resource_name(row["resource"]),
        )
    return table


def _aggressive(diagnosis: Diagnosis, top: int) -> Table | None:
    frame = diagnosis.graph.aggressive_queries(top)
    frame = frame[frame["lost_ms"] > 0]
    if len(frame) == 0:
        return None
    names = diagnosis.tables.queries["name"].tolist()
    table = plain_table("query", ">others lost", ">queries hit", "mostly for", "worst hit")
    for row in frame.to_dict("records"):
        worst = row["worst_victim"]
        table.add_row(
            f"{short(row['name'], 32)} {printable(row['query_id'].rsplit('/', 1)[-1])}",
            duration(row["lost_ms"]),
            str(row["victims"]),
            resource_name(row["resource"]),
            short(names[worst], 32) if worst >= 0 else "",
        )
    return table


def _rules(diagnosis: Diagnosis) -> RenderableType | None:
    rules = scheduler_rules(diagnosis.rules)
    if not rules:
        return Text("none: no query lost enough to another to be worth a rule")
    table = plain_table("type", "query", ">value", "why")
    for rule in rules:
        value = rule.to_dict()["rule-value"]
        why = rule.reason
        if not rule.helps_pools:
            why += (
                f" Scheduler pools will not help: they share out slots, not "
                f"{resource_name(rule.resource)}. What would: {rule.advice}"
            )
        if rule.expected is not None:
            why += f" Expected: {rule.expected['sentence']}."
        table.add_row(
            str(rule.rule_type),
            short(rule.query_name, 28),
            f"{value:.3g}" if isinstance(value, float) else str(value),
            Text(printable(why)),
        )
    if diagnosis.rules_together is None:
        return table
    return Group(table, Text(printable(_together(diagnosis.rules_together))))


def _together(expected: Expected) -> str:
    """What all rules come to, and how good the replay is that says so."""
    text = f"All together, expected: {expected.sentence}."
    error, worst = expected.replay_error_percent, expected.replay_worst_error_percent
    if error is not None and worst is not None:
        text += (
            f" A replay of the run as it was is {error:.1f} % off (the median query; "
            f"the worst {worst:.1f} %)."
        )
    return text


def _doubts(diagnosis: Diagnosis, console: Console) -> None:
    if not diagnosis.doubts:
        return
    console.print()
    console.print(Text("What is doubtful", style="bold"))
    for doubt in diagnosis.doubts:
        console.print(Padding(Text(f"- {printable(doubt)}"), (0, 0, 0, 3)))
