"""``iqcar-lab printed``: what the five papers' methods answer, exactly as they are printed.

Each answer is a list of rows, which are the JSON and, as far as they fit, a plain table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from iqcar.apps.cli.command import Extra, Result, command
from iqcar.apps.cli.reading import counting, read_for, working
from iqcar.enums import MatchBy, QueryBy, RunBy
from iqcar.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.comparison.comparison import Comparison
    from iqcar.tables import Tables

SCIENTIFIC = Extra("lab", ("scipy",))

printed = typer.Typer(
    name="printed",
    no_args_is_help=True,
    help="Answer as the papers' methods do, exactly as they are printed: baselines for ours.",
    short_help="Answer as the papers print it.",
)


@printed.command()
@command()
def blame(
    paths: list[str],
    *,
    target: list[str],
    top: int = 5,
    query_by: QueryBy = QueryBy.SQL,
    critical_path: bool = False,
) -> Result:
    """Divide responsibility for a query by iQCAR: vertices of iQC-Graph with their DOR, by level.

    Levels: 1 its stages, 2 their resources, 3 requests and hosts, 4 and 5 source stages, 6 source
    queries.

    Example: iqcar-lab printed blame spark-events/ --target q39b

    Parameters
    ----------
    top : 1..1000
        How many vertices of each level to show.
    """
    from iqcar.pipeline import diagnose
    from iqcar_lab.printed.iqcar import printed_blame

    tables = read_for(paths, query_by)
    with working("analysing"):
        found = diagnose(tables, targets=target, query_by=query_by, topics=False, rules=False)
        rows = printed_blame(
            found.tables, found.waits, found.targets, top, critical_path=critical_path
        )
    said = "iQCAR as printed: shares of responsibility (DOR); it names no lost time."
    return _answer(said, _vertices(found.tables, rows), tables=[tables])


def _vertices(tables: Tables, rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Lay out vertices: ids and names in place of rows of tables."""
    ids, hosts, stages = _texts(tables, "queries.query_id", "hosts.host", "stages.stage_id")

    def named(names: Sequence[Any], row: int) -> Any:
        return names[row] if row >= 0 else None

    return [
        {
            "target_query_id": ids[row["target"]],
            "level": row["level"],
            "stage_id": named(stages, row["stage"]),
            "resource": row["resource"] or None,
            "request": row["request"] or None,
            "host": named(hosts, row["host"]),
            "source_query_id": named(ids, row["source_query"]),
            "source_stage_id": named(stages, row["source_stage"]),
            "contribution": row["contribution"],
            "dor": row["dor"],
        }
        for row in rows.to_dict("records")
    ]


def _texts(tables: Tables, *columns: str) -> list[list[Any]]:
    found = []
    for column in columns:
        table, _, name = column.partition(".")
        found.append(getattr(tables, table)[name].tolist())
    return found


@printed.command()
@command(needs=SCIENTIFIC)
def topics(
    paths: list[str],
    *,
    seed: int = 0,
    names: str = "",
    top: int = 10,
    query_by: QueryBy = QueryBy.SQL,
) -> Result:
    """Find what keeps making tasks slow by Hound: topics of each kind of learner, and mixtures.

    Example: iqcar-lab printed topics spark-events/ --json topics.json

    Parameters
    ----------
    seed : 0..4294967295
        The same seed gives the same topics.
    names : FILE
        Your own names of topics, in the format of rules/topics.json.
    top : 1..1000
        How many topics and stages to show.
    """
    from iqcar.causes.stragglers import build_features
    from iqcar.causes.stragglers.straggler_result import StragglerSettings, labels_of
    from iqcar.model.waits.measure import measure_waits
    from iqcar.rules.vocabulary import topic_name, topic_vocabulary
    from iqcar_lab.printed.hound import printed_topics

    topic_vocabulary(names)
    tables = read_for(paths, query_by)
    features = build_features(tables, measure_waits(tables), StragglerSettings().edge_ms)
    with counting("learning from stages as printed") as progress:
        found = printed_topics(features, seed=seed, progress=progress)
    listed = []
    for (model, number), rows in found.topics.groupby(["model", "topic"], sort=False):
        words = rows[rows["word"] != ""]
        keywords = dict(zip(words["word"].tolist(), words["weight"].tolist(), strict=True))
        cluster = int(rows["cluster"].iloc[0])
        listed.append(
            {
                "model": model,
                "topic": int(number),
                "name": topic_name(keywords, names).name,
                "keywords": keywords,
                "cluster": cluster if cluster >= 0 else None,
                **{key: float(rows[key].iloc[0]) for key in ("coverage", "dominant_coverage")},
            }
        )
    labels = labels_of(tables)
    stages = [
        {
            "stage": labels.stage(int(stage)),
            "mixtures": {
                str(model): of[["topic", "share"]].to_dict("records")
                for model, of in rows.groupby("model", sort=False)
            },
        }
        for stage, rows in found.mixtures.groupby("stage")
    ]
    said = "Hound as printed: base learners on raw latency, drawn words, means of mixtures."
    answer = {"topics": listed, "stages": stages}
    return _answer(said, answer, most=top, tables=[tables])


@printed.command()
@command(needs=SCIENTIFIC)
def compare(
    before: str,
    after: str,
    *,
    alpha: float = 0.05,
    match: MatchBy = MatchBy.AUTO,
    run_by: RunBy = RunBy.HOUR,
    top: int = 10,
    query_by: QueryBy = QueryBy.SQL,
) -> Result:
    """Find what changed between two sets of runs by Spectroscope: mutations, ranked.

    Example: iqcar-lab printed compare logs/monday/ logs/tuesday/

    Parameters
    ----------
    before : BEFORE
        Event logs of the runs before.
    after : AFTER
        Event logs of the runs after.
    alpha
        Level of the tests.
    match
        How queries are matched.
    run_by
        What one run is.
    top : 1..1000
        How many mutations to show.
    """
    from iqcar.comparison.comparison import check_levels, compare_sides
    from iqcar.comparison.sides import measure_side
    from iqcar_lab.printed.spectroscope import printed_findings

    check_levels(0.05, alpha)
    tables = [read_for([path], query_by) for path in (before, after)]
    with working("comparing"):
        sides = [measure_side(one, run_by) for one in tables]
        compared = compare_sides((sides[0], sides[1]), alpha=alpha, match_by=match)
    said = "Spectroscope as printed: no margin, no correction for many tests."
    return _answer(said, _mutations(compared, printed_findings(compared)), most=top, tables=tables)


def _mutations(compared: Comparison, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from iqcar.show.json.described import plain

    return [
        {
            "query": compared.name(row.pop("category")),
            **{name: plain(value) for name, value in row.items()},
            "graph": row["graph"].split("\n"),
            "stages": [compared.name(int(of)) for of in row["stages"]],
            "precursors": [graph.split("\n") for graph in row["precursors"]],
        }
        for row in rows
    ]


@printed.command()
@command()
def stragglers(paths: list[str], *, top: int = 10, query_by: QueryBy = QueryBy.SQL) -> Result:
    """Find slow tasks and their causes by BigRoots, the most delayed first.

    Example: iqcar-lab printed stragglers spark-events/

    Parameters
    ----------
    top : 1..1000
        How many stragglers to show.
    """
    from iqcar.causes.stragglers.straggler_result import labels_of
    from iqcar.show.json.described import plain
    from iqcar_lab.printed.bigroots import printed_stragglers

    tables = read_for(paths, query_by)
    labels, listed = labels_of(tables), []
    for row, of in printed_stragglers(tables).groupby("task", sort=False):
        task = tables.tasks.iloc[int(str(row))]
        names = ("feature", "value", "quantile", "peer_mean")
        listed.append(
            {
                "app": labels.app(int(task["app"])),
                "stage": labels.stage(int(task["stage"])),
                "query_id": labels.query_id(int(task["query"])) or None,
                "host": labels.host(int(task["host"])) or None,
                "task": labels.task(int(str(row)), int(task["task_id"])),
                "duration_ms": float(of["duration_ms"].iloc[0]),
                "median_ms": float(of["median_ms"].iloc[0]),
                "causes": [
                    {name: plain(cause[name]) for name in names}
                    for cause in of[of["feature"] != ""].to_dict("records")
                ],
            }
        )
    said = "BigRoots as printed: how busy hosts were, no waits, amounts of any size."
    return _answer(said, listed, most=top, tables=[tables])


@printed.command()
@command()
def whatif(
    paths: list[str],
    *,
    disk: str | None = None,
    network: str | None = None,
    cpu: str | None = None,
    scale: list[str] | None = None,
    top: int = 10,
    query_by: QueryBy = QueryBy.SQL,
) -> Result:
    """Predict reading times by the intervention paper's causal model, had something been different.

    Example: iqcar-lab printed whatif spark-events/ --disk 2x

    Parameters
    ----------
    disk : FACTOR
        Capacity of disks, such as 2x.
    network : FACTOR
        Capacity of networks.
    cpu : FACTOR
        Capacity of processors.
    scale : QUERY=FACTOR
        Data of a query; several times.
    top : 1..1000
        How many queries to show.
    """
    from iqcar.model.waits.measure import measure_waits
    from iqcar.replay.whatif.question import parse_request
    from iqcar.show.json.described import plain
    from iqcar_lab.printed.intervention import printed_what_if

    asked = parse_request(disk=disk, network=network, cpu=cpu, scale=scale).question
    tables = read_for(paths, query_by)
    with working("fitting the model"):
        found = printed_what_if(tables, measure_waits(tables), asked)
    ids, called = _texts(tables, "queries.query_id", "queries.name")
    change = (found["predicted_ms"] - found["model_ms"]).abs()
    rows = [
        {
            "query_id": ids[row.pop("query")],
            "name": called[number],
            **{str(name): plain(value) for name, value in row.items()},
        }
        for number, row in zip(found["query"], found.to_dict("records"), strict=True)
    ]
    said = "The causal model as printed: reading times of tasks, no slots, no others."
    order = change.to_numpy().argsort(kind="stable")[::-1]
    return _answer(
        f"{said} {asked.sentence()}", [rows[n] for n in order], most=top, tables=[tables]
    )


def _answer(
    said: str,
    found: list[dict[str, Any]] | Mapping[str, list[dict[str, Any]]],
    *,
    tables: Sequence[Tables],
    most: int | None = None,
) -> Result:
    """Print what was found as one table or several, or write all of it as JSON."""
    from iqcar.base.files.json_text import json_bytes

    def show() -> None:
        from iqcar.show.terminal.layout import terminal
        from iqcar_lab.commands.rows import print_rows

        console = terminal()
        console.print(said)
        for rows in found.values() if isinstance(found, Mapping) else [found]:
            print_rows(console, rows, most)

    content = {"iqcar_version": __version__, "printed": found}
    return Result(show, partial(json_bytes, content, indent=1), tables=tables)
