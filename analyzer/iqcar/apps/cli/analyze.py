"""``iqcar analyze``: blame target queries' waits on source queries, and propose rules."""

from __future__ import annotations

from typing import Annotated

import typer

from iqcar.apps.cli import options
from iqcar.enums import QueryBy


def analyze(
    paths: options.Paths,
    json: options.JsonFile = None,
    rules: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-",
            help="Write the scheduler rules as JSON, compiled to FAIR pools: what "
            "spark.iqcar.rules takes, and `iqcar rules compile`.",
        ),
    ] = None,
    previous: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="The rules file that these runs were recorded with: its rules stay unless nothing "
            "needs them any more, and no new rule undoes them without saying so.",
        ),
    ] = "",
    html: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-", help="Write a report to explore as one HTML file (`iqcar report`)."
        ),
    ] = None,
    target: options.Targets = None,
    top: options.Top = 5,
    query_by: options.Queries = QueryBy.SQL,
    critical_path: options.CriticalPath = False,
    topics: options.Recurring = False,
    advice: options.Advice = "",
    samples: options.Samples = None,
    all_sources: options.AllSources = False,
    all_rules: options.AllRules = False,
    on_spark: Annotated[
        bool,
        typer.Option(
            "--on-spark",
            help="Read and diagnose the logs on Spark, and sum up what all applications lost: on "
            "the active session or the application of spark-submit, else on --master. "
            "Applications that shared hosts at the same time are diagnosed together. Needs "
            "iqcar[spark].",
        ),
    ] = False,
    master: options.Master = "",
    by: options.By = "",
    force: options.Force = False,
) -> None:
    """Find who made your queries wait, for what, where, and propose scheduler rules.

    Prints for each target query: how long it waited for what, which queries were in the way and
    by how much, where; then hot resources, slow nodes, aggressive queries, proposed rules, and
    what is doubtful about all that.

    Example: iqcar analyze spark-events/ --target q39b --json diagnosis.json --rules rules.json

    For many logs: iqcar analyze s3a://logs/ --on-spark --master spark://host:7077
    """
    from iqcar.apps.cli.analyze_on_spark import analyze_on_spark, refuse
    from iqcar.apps.cli.reading import exit_code, read_for, working
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.diagnosis import Settings
    from iqcar.errors import UsageError
    from iqcar.pipeline import diagnose
    from iqcar.rules.rule_file import dump_compiled, load_rules_file
    from iqcar.rules.vocabulary.advice_kinds import advice_kinds
    from iqcar.show.json.analyze import json_chunks
    from iqcar.show.terminal.analyze import print_diagnosis

    check_writable(json, force)
    if on_spark:
        refuse(
            {
                "--rules": rules, "--previous": previous, "--html": html, "--target": target,
                "--topics": topics, "--advice": advice, "--samples": samples,
                "--all-rules": all_rules, "--by": by,
            }
        )  # fmt: skip
        settings = Settings(query_by, critical_path, top)
        raise typer.Exit(analyze_on_spark(paths, master, json, settings, all_sources=all_sources))
    if master:
        raise UsageError("goes with --on-spark only", "--master")
    check_writable(rules, force)
    if advice:
        advice_kinds(advice)
    check_writable(html, force)
    earlier = load_rules_file(previous) if previous else None
    tables = read_for(paths, query_by, samples)
    with working("analysing"):
        diagnosis = diagnose(
            tables,
            targets=target or (),
            critical_path=critical_path,
            top=top,
            query_by=query_by,
            by=by,
            topics=topics,
            advice=advice,
            all_sources=all_sources,
            all_rules=all_rules,
            previous=earlier,
        )
    if "-" not in (json, rules, html):
        print_diagnosis(diagnosis)
    if json is not None:
        write_result(json, json_chunks(diagnosis))
    if rules is not None:
        found, since = diagnosis.rules, diagnosis.earlier
        write_result(rules, dump_compiled(diagnosis.tables, found, since.recorded, since.notes))
    if html is not None:
        from iqcar.show.html import render_page

        write_result(html, render_page(diagnosis).encode("utf-8", "replace"))
    raise typer.Exit(exit_code(diagnosis.tables))
