"""``iqcar stragglers``: find slow tasks and their causes, and give advice."""

from __future__ import annotations

from typing import Annotated

import typer

from iqcar.apps.cli import options
from iqcar.enums import QueryBy


def stragglers(
    paths: options.PathsOrTrace = None,
    trace: options.Traces = None,
    columns: options.Columns = "",
    settings: Annotated[
        str,
        typer.Option(
            metavar="NAME=VALUE,…",
            help="Thresholds (docs/stragglers.md), e.g. ratio=2,evidence=paper. The word `paper` "
            "stands for the method as printed.",
        ),
    ] = "",
    json: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE|-", help="Write the stragglers as JSON, all of them."),
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, max=1000, help="How many stages, hosts and stragglers to show.")
    ] = 5,
    query_by: options.Queries = QueryBy.SQL,
    samples: options.Samples = None,
    force: options.Force = False,
) -> None:
    """Find tasks that were slower than their stage, why each was, and what to do about it.

    A straggler took more than 1.5 times its stage's median. Its metrics, its measured waits and
    what its host did meanwhile are compared with those of the stage's other tasks; what stands out
    is a cause (BigRoots). Causes that are a resource of a host name the queries blamed for it.

    Example: iqcar stragglers spark-events/ --json stragglers.json
    """
    from iqcar.apps.cli.reading import exit_code, read_for, working
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.causes.stragglers.straggler_settings import StragglerSettings
    from iqcar.errors import ExitCode
    from iqcar.lab.traces.trace_columns import TraceColumns
    from iqcar.show.json.analyze import stragglers_to_json
    from iqcar.show.terminal.stragglers import print_stragglers

    chosen = StragglerSettings.parse(settings)
    named = TraceColumns.parse(columns)
    check_writable(json, force)
    options.need_logs_or_traces(paths, trace)
    tables = read_for(paths, query_by, samples) if paths else None
    found = []
    with working("analysing"):
        if tables is not None:
            from iqcar.logs.merge import without_faulty
            from iqcar.pipeline import stragglers_of

            tables, one = without_faulty(tables, lambda some: (some, stragglers_of(some, chosen)))
            found.append(one)
        if trace:
            from iqcar.causes.stragglers import explain
            from iqcar.lab.traces.trace_survey import read_trace

            found += [explain(read_trace(path, named), chosen) for path in trace]
    if json != "-":
        for one in found:
            print_stragglers(one, top)
    if json is not None:
        write_result(json, stragglers_to_json(tables, found))
    raise typer.Exit(exit_code(tables) if tables is not None else ExitCode.OK)
