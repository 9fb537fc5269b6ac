"""``iqcar analyze``: blame target queries' waits on source queries, and propose rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial

from iqcar.apps.cli import options
from iqcar.apps.cli.command import Result, command
from iqcar.enums import QueryBy
from iqcar.errors import UsageError


@command("Who made your queries wait, and what to change.", writes=("json", "rules", "html"))
def analyze(
    logs: list[str] | None = None,
    *,
    json: str | None = None,
    rules: str | None = None,
    previous: str = "",
    html: str | None = None,
    target: list[str] | None = None,
    how: options.Diagnosing,
    topics: bool | None = None,
    advice: str = "",
    samples: list[str] | None = None,
    all_sources: bool = False,
    all_rules: bool = False,
    on_spark: bool = False,
    master: str = "",
    by: str = "",
    recall: str = "",
    curves: str = "",
    yarn: str = "",
    full: bool = False,
) -> Result:
    """Find who made your queries wait, for what, where, and propose scheduler rules.

    Prints what would save most time, whatever the cause, and what to do. With --full for each
    target query how long it waited for what, which queries were in the way and by how much, where;
    then resources, hosts, aggressive queries, proposed rules, and what is doubtful about all that.

    Example: iqcar analyze spark-events/ --target q39b --json diagnosis.json --rules rules.json

    For many logs: iqcar analyze s3a://logs/ --on-spark --store store/

    Parameters
    ----------
    rules : FILE|-
        Write the scheduler rules as JSON, compiled to FAIR pools: what spark.iqcar.rules takes, and
        `iqcar rules compile`.
    previous : FILE
        The rules file that these runs were recorded with: its rules stay unless nothing needs them
        any more, and no new rule undoes them without saying so.
    html : FILE|-
        Write a report to explore as one HTML file (`iqcar report`).
    full
        Print everything, not only what would save most.
    on_spark
        Read and diagnose the logs on Spark into --store, as `iqcar history add --on-spark` does,
        and rank what was lost in all that the store holds.
    """
    from iqcar.apps.cli.reading import diagnosed, logs_of

    paths = logs_of(logs)
    if on_spark:
        refused = {
            "--rules": rules, "--previous": previous, "--html": html, "--target": target,
            "--topics": topics, "--advice": advice, "--samples": samples, "--by": by,
            "--all-rules": all_rules, "--all-sources": all_sources, "--curves": curves,
            "--yarn": yarn, "--critical-path": how.critical_path,
            "--query-by": how.query_by is not QueryBy.SQL,
        }  # fmt: skip
        return _on_spark(paths, master, recall, how.top, refused)
    options.check_master(master, on_spark)
    from iqcar.rules.compile_pools import dump_compiled, load_rules_file
    from iqcar.rules.vocabulary import advice_kinds
    from iqcar.show.json.analyze import json_chunks
    from iqcar.show.terminal.analyze import print_answer, print_diagnosis

    if advice:
        advice_kinds(advice)
    found = diagnosed(
        paths,
        samples,
        recall,
        curves,
        yarn,
        targets=target or (),
        previous=load_rules_file(previous) if previous else None,
        **asdict(how),
        by=by,
        topics=topics,
        advice=advice,
        all_sources=all_sources,
        all_rules=all_rules,
    )

    def page() -> bytes:
        from iqcar.show.html import render_page

        return render_page(found).encode("utf-8", "replace")

    def show() -> None:
        if full or by or topics or target:
            print_diagnosis(found)
        else:
            print_answer(found)

    since = found.earlier
    compiled = partial(dump_compiled, found.tables, found.rules, since.recorded, since.notes)
    return Result(
        show,
        partial(json_chunks, found),
        {"rules": compiled, "html": page},
        tables=[found.tables],
    )


def _on_spark(
    paths: list[str], master: str, store: str, most: int, refused: Mapping[str, object]
) -> Result:
    """Diagnose logs on executors into a store, and rank what was lost in all that it holds."""
    for name, value in refused.items():
        if value:
            raise UsageError(
                "does not go with --on-spark", name, "analyse a few logs without Spark for it"
            )
    if not store:
        raise UsageError(
            "needs a place for what is found", "--on-spark", "give --store STORE, of iqcar history"
        )
    from iqcar.apps.cli.history import added_to

    return added_to(store, paths, master, most)
