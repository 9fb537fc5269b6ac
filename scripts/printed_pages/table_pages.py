"""The pages of tables, of stored tables and of named kinds."""

from __future__ import annotations

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
from scripts.printed_pages.page_parts import PRINTED

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


def tables_page() -> str:
    """Every column of every table."""
    lines = [
        "# Tables",
        PRINTED,
        "`iqcar.read` returns these pandas frames; the tables from `waits` on are derived",
        "from them. An integer column with unit `row` holds a row number",
        "of the table it is named after; −1 means none. Unknown numbers are NaN, never zero.",
    ]
    waited = (WAITS, PHASES, QUERY_WAITS, DRIVER_WORK)
    derived = (*waited, *DEMAND_TABLES, WASTED_TASKS, WASTED_WORK, FEATURES)
    answers = (*STRAGGLER_TABLES, *TOPIC_TABLES, *COMPARED_TABLES)
    for spec in (*SPECS, *derived, *answers):
        lines += _columns(spec)
    return "\n".join(lines) + "\n"


def stored_tables_page() -> str:
    """Every column of every table of a store."""
    lines = [
        "# Stored tables",
        PRINTED,
        "A [store](history.md) keeps these tables as Parquet files, with `cluster` and `day` in",
        "their paths; `day` is a month in past months. Rows of `applications` whose `batch` is the",
        "last of their application count, and of the other tables those with the same `batch`.",
    ]
    for spec in STORED:
        lines += _columns(spec)
    return "\n".join(lines) + "\n"


def _columns(spec: TableSpec) -> list[str]:
    return [
        *("", f"## {spec.name}", "", spec.sentence, ""),
        *("| column | dtype | unit | what it holds |", "|---|---|---|---|"),
        *(f"| `{c.name}` | {c.dtype} | {c.unit} | {c.sentence} |" for c in spec.columns),
    ]


def kinds_page() -> str:
    """Every named kind with its sentence."""
    lines = ["# Kinds", PRINTED, "The words that results, options and tables use."]
    for kind in (
        Resource, Request, Domain, Evidence, DemandEvidence, QueryBy, BlameKind,
        WasteCause, InputStatus, Level, FeatureKind, CauseEvidence, BaseModel,
        ChangeVerdict, ChangeKind, RunBy, MatchBy, DriverPart, DriverWork,
    ):  # fmt: skip
        lines += ["", f"## {kind.__name__}", "", "| value | meaning |", "|---|---|"]
        lines += [f"| `{member.value}` | {member.sentence} |" for member in kind]
        if kind is Request:
            lines += ["", "| request | resource | who can hold it |", "|---|---|---|"]
            lines += [f"| `{r.value}` | {r.resource} | {r.domain.sentence} |" for r in Request]
    return "\n".join(lines) + "\n"
