"""The pages of tables, of stored tables and of named kinds."""

from __future__ import annotations

from collections.abc import Sequence

from iqcar.causes.stragglers.features import FEATURES
from iqcar.causes.stragglers.straggler_result import STRAGGLER_CAUSES, STRAGGLER_SOURCES, STRAGGLERS
from iqcar.causes.topics.topic_result import (
    MIXTURES,
    STRAGGLER_TOPICS,
    TOPIC_JOBS,
    TOPIC_SOURCES,
    TOPIC_WORDS,
    TOPICS,
    VALIDATION,
)
from iqcar.causes.wasted.wasted_work import WASTED_TASKS, WASTED_WORK
from iqcar.comparison.comparison_tables import COMPARISON_TABLES
from iqcar.comparison.explore import VARIATION
from iqcar.comparison.match import STRUCTURES
from iqcar.enums import (
    BaseModel,
    BlameKind,
    CauseEvidence,
    ChangeKind,
    ChangeVerdict,
    DemandEvidence,
    Domain,
    Evidence,
    FeatureKind,
    InputStatus,
    Level,
    MatchBy,
    QueryBy,
    QueryStatus,
    Request,
    Resource,
    RunBy,
    WasteCause,
)
from iqcar.history.stored_files import STORED
from iqcar.model.demand.estimate import CAPACITIES, OWN_RATES
from iqcar.model.waits.columns import WAITS
from iqcar.model.waits.driver_time import DRIVER_WORK, DriverPart, DriverWork
from iqcar.model.waits.measure import QUERY_WAITS
from iqcar.model.waits.phases import PHASES
from iqcar.tables import SPECS, TableSpec
from scripts.printed_pages.page_parts import PRINTED, Item, listed, once

COMPARED_TABLES = (*COMPARISON_TABLES, STRUCTURES, VARIATION)
DEMAND_TABLES = (OWN_RATES, CAPACITIES)
STRAGGLER_TABLES = (STRAGGLERS, STRAGGLER_CAUSES, STRAGGLER_SOURCES)
TOPIC_TABLES = (
    TOPICS,
    TOPIC_WORDS,
    TOPIC_JOBS,
    MIXTURES,
    VALIDATION,
    STRAGGLER_TOPICS,
    TOPIC_SOURCES,
)


COLUMNS = (
    "Where no dtype and unit stand, a column in `_ms` is float64 in ms, one in `_bytes` float64 in "
    "bytes, and any other str."
)


def tables_page() -> str:
    """Every column of every table."""
    waited = (WAITS, PHASES, QUERY_WAITS, DRIVER_WORK)
    derived = (*waited, *DEMAND_TABLES, WASTED_TASKS, WASTED_WORK, FEATURES)
    answers = (*STRAGGLER_TABLES, *TOPIC_TABLES, *COMPARED_TABLES)
    return _page(
        "Tables",
        "`iqcar.read` returns these pandas frames; the tables from `waits` on are derived from "
        "them. An integer column with unit `row` holds a row number of the table it is named "
        "after; −1 means none. Unknown numbers are NaN, never zero.",
        (*SPECS, *derived, *answers),
    )


def stored_tables_page() -> str:
    """Every column of every table of a store."""
    return _page(
        "Stored tables",
        "A [store](history.md) keeps these tables as Parquet files, with `cluster` and `day` in "
        "their paths; `day` is a month in past months. Rows of `applications` whose `batch` is the "
        "last of their application count, and of the other tables those with the same `batch`.",
        STORED,
    )


def _page(title: str, introduction: str, specs: Sequence[TableSpec]) -> str:
    tables = {spec.name: _columns(spec) for spec in specs}
    told = once(tables.values())
    lines = [f"# {title}", PRINTED, f"{introduction} {COLUMNS}"]
    lines += ["", "## Columns of several tables", "", "Tables that have one only name it.", ""]
    lines += listed(told)
    for spec in specs:
        lines += ["", f"## {spec.name}", "", spec.sentence, "", *listed(tables[spec.name], told)]
    return "\n".join(lines) + "\n"


def _columns(spec: TableSpec) -> list[Item]:
    names = {column.name for column in spec.columns}
    items = []
    for c in spec.columns:
        if c.name.removesuffix("_before").removesuffix("_after") in names - {c.name}:
            continue  # told with the column itself
        unit = c.name.rsplit("_", 1)[-1]
        usual = ("float64", unit) if unit in ("ms", "bytes") else ("str", "")
        kind = "" if (c.dtype, c.unit) == usual else ", ".join(filter(None, (c.dtype, c.unit)))
        edges = " Also `_before`, `_after`." if f"{c.name}_before" in names else ""
        items.append((c.name, kind, c.sentence + edges))
    return items


def kinds_page() -> str:
    """Every named kind with its sentence."""
    lines = ["# Kinds", PRINTED, "The words that results, options and tables use."]
    for kind in (
        Resource, Request, Domain, Evidence, DemandEvidence, QueryBy, BlameKind,
        WasteCause, QueryStatus, InputStatus, Level, FeatureKind, CauseEvidence, BaseModel,
        ChangeVerdict, ChangeKind, RunBy, MatchBy, DriverPart, DriverWork,
    ):  # fmt: skip
        lines += ["", f"## {kind.__name__}", ""]
        if kind is Request:
            lines += ["In brackets its resource, and which [tasks](#domain) can hold it.", ""]
        of = {r: f"{r.resource}, {r.domain}" for r in Request} if kind is Request else {}
        lines += listed([(member.value, of.get(member, ""), member.sentence) for member in kind])
    return "\n".join(lines) + "\n"
