"""``iqcar stragglers``: find slow tasks and their causes, and give advice."""

from __future__ import annotations

from functools import partial

from iqcar.apps.cli.command import Result, command
from iqcar.enums import QueryBy


@command("Why each slow task was slow.")
def stragglers(
    paths: list[str],
    *,
    settings: str = "",
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
        Event logs of one or many applications, as for `iqcar analyze`.
    settings : NAME=VALUE,…
        Thresholds (docs/stragglers.md), e.g. ratio=2,evidence=paper.
    json : FILE|-
        Write the stragglers as JSON, all of them.
    top : 1..1000
        How many stages, hosts and stragglers to show.
    """
    from iqcar.apps.cli.reading import read_for, working
    from iqcar.causes.stragglers.straggler_result import StragglerSettings
    from iqcar.logs.merge import without_faulty
    from iqcar.pipeline import stragglers_of
    from iqcar.show.json.analyze import stragglers_to_json
    from iqcar.show.terminal.analyze import print_stragglers

    chosen = StragglerSettings.parse(settings)
    tables = read_for(paths, query_by, samples)
    with working("analysing"):
        tables, found = without_faulty(tables, lambda some: (some, stragglers_of(some, chosen)))
    content = partial(stragglers_to_json, tables, found)
    return Result(partial(print_stragglers, found, top), content, tables=[tables])
