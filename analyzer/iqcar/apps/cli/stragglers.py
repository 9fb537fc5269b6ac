"""``iqcar stragglers``: find slow tasks and their causes, and give advice."""

from __future__ import annotations

from functools import partial

from iqcar.apps.cli import options
from iqcar.apps.cli.command import Result, command
from iqcar.enums import QueryBy, StragglerMethod
from iqcar.errors import UsageError


@command("Why each slow task was slow.")
def stragglers(
    paths: list[str] | None = None,
    *,
    trace: list[str] | None = None,
    columns: str = "",
    settings: str = "",
    method: StragglerMethod = StragglerMethod.WAITS,
    json: str | None = None,
    top: int = 5,
    query_by: QueryBy = QueryBy.SQL,
    samples: list[str] | None = None,
) -> Result:
    """Find tasks that were slower than their stage, why each was, and what to do about it.

    A straggler took more than 1.5 times its stage's median. Its metrics, its measured waits and
    what its host did meanwhile are compared with those of the stage's other tasks; what stands out
    is a cause (BigRoots). Causes that are a resource of a host name the queries blamed for it.

    Example: iqcar stragglers spark-events/ --json stragglers.json

    Parameters
    ----------
    paths : [PATH]...
        Event logs of one or many applications, as for `iqcar analyze`. Can be left out if there is
        a --trace.
    settings : NAME=VALUE,…
        Thresholds (docs/stragglers.md), e.g. ratio=2,evidence=paper.
    method
        How it is decided what delayed a straggler.
    json : FILE|-
        Write the stragglers as JSON, all of them.
    top : 1..1000
        How many stages, hosts and stragglers to show.
    """
    from iqcar.apps.cli.reading import read_for, working
    from iqcar.causes.stragglers.straggler_result import StragglerSettings
    from iqcar.lab.traces.trace_columns import TraceColumns
    from iqcar.papers.bigroots import printed_stragglers
    from iqcar.show.json.analyze import stragglers_to_json
    from iqcar.show.terminal.analyze import print_printed_stragglers, print_stragglers

    as_printed = method is StragglerMethod.PRINTED
    if as_printed and (trace or settings):
        raise UsageError(
            "looks at event logs, with its own thresholds", "--method printed",
            "leave --trace and --settings out",
        )  # fmt: skip
    chosen = StragglerSettings.parse(settings)
    named = TraceColumns.parse(columns)
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

    printed = printed_stragglers(tables) if as_printed and tables is not None else None

    def show() -> None:
        if printed is not None and tables is not None:
            print_printed_stragglers(tables, printed, top)
            return
        for one in found:
            print_stragglers(one, top)

    content = partial(stragglers_to_json, tables, found, printed)
    return Result(show, content, tables=[] if tables is None else [tables])
