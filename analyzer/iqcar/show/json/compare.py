"""Declares and writes two sets of runs as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from iqcar.base.files.json_text import json_bytes
from iqcar.base.units import printable
from iqcar.comparison.comparison import Gate
from iqcar.comparison.comparison_sections import changes_headline
from iqcar.comparison.explore import Explanation
from iqcar.enums import ChangeVerdict
from iqcar.model.waits.stage_parts import PART_NAMES
from iqcar.show.json.described import HEAD, laid_out, plain, schema_text
from iqcar.tables import texts

if TYPE_CHECKING:
    from iqcar.comparison.comparison import Comparison
    from iqcar.comparison.sides import Side


ContributionMs = Annotated[float, "Change per run, all runs of the query in it together."]
IntervalMs = Annotated[
    list[float | None],
    Meta(min_length=2, max_length=2),
    "Interval of the contribution, of 1 − alpha; null where it could not be tested.",
]
Runs = Annotated[
    list[Annotated[int, Meta(ge=0)]],
    Meta(min_length=2, max_length=2),
    "Runs with it, before and after.",
]


class CompareSide(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runs of one side."""

    logs: Annotated[list[str], "Paths of its logs."]
    runs: Annotated[int, Meta(ge=0), "Runs: the units of statistics."]
    applications: Annotated[list[str], "Ids of its applications."]
    versions: Annotated[list[str], "Spark versions."]
    hosts: Annotated[list[str], "Hosts that ran its tasks."]
    host_cores: Annotated[
        float | None, "Cores of an application's executors on a host, median; null where unknown."
    ]


class CompareTotal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Durations of all compared queries."""

    before: Annotated[float, "Before."]
    after: Annotated[float, "After."]


class CompareSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting that differs."""

    key: Annotated[str, "The property."]
    before: Annotated[list[str], "Its values before; empty if not set."]
    after: Annotated[list[str], "Its values after; empty if not set."]


class CompareHost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts of either side."""

    before: Annotated[list[str], "Hosts only before."]
    after: Annotated[list[str], "Hosts only after."]


class CompareSparkVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Spark versions of either side."""

    before: Annotated[list[str], "Before."]
    after: Annotated[list[str], "After."]


class CompareDifferent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What else differs between the sides."""

    conf: Annotated[list[CompareSetting], "Spark properties that differ."]
    hosts: Annotated[CompareHost, "Hosts that only one side has."]
    spark_version: Annotated[
        CompareSparkVersion | None, "Spark versions where they differ; else null."
    ]


class CompareQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recurring query of both sides."""

    name_before: Annotated[str | None, "Name before; null if it did not run."]
    name_after: Annotated[str | None, "Name after; null if it did not run."]
    fingerprint: Annotated[str | None, "Fingerprint after, else before; null if it has none."]
    matched_by: Annotated[
        Literal["fingerprint", "name", "plan", "pair"] | None,
        "How it was matched; null if it ran on one side only.",
    ]


class CompareExample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stage of one run, to look at."""

    application_id: Annotated[str, "Its application."]
    stage_id: Annotated[int, "Spark's stage id."]


class CompareStage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stage of a recurring query."""

    label: Annotated[
        str,
        "Its RDD scopes and plan nodes; `driver` for the time in which no stage held the query up.",
    ]
    number: Annotated[int, Meta(ge=1), "Its number among the query's stages of one label, from 1."]
    operators: Annotated[list[str], "Plan operators."]
    before: Annotated[
        CompareExample | None, "A stage before; null if there is none, or only a baseline."
    ]
    after: Annotated[CompareExample | None, "A stage after; null if there is none."]


class ComparePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of the parts of task time, in ms; one per request of a running task among them."""

    slots: Annotated[float, "Change of this part."]
    executors: Annotated[float, "Change of this part."]
    compute: Annotated[float, "Change of this part."]
    gc: Annotated[float, "Change of this part."]
    run_queue: Annotated[float, "Change of this part."]
    monitor_blocked: Annotated[float, "Change of this part."]
    notification_wait: Annotated[float, "Change of this part."]
    throttled: Annotated[float, "Change of this part."]
    execution_memory: Annotated[float, "Change of this part."]
    storage_memory: Annotated[float, "Change of this part."]
    page_fault: Annotated[float, "Change of this part."]
    shuffle_fetch: Annotated[float, "Change of this part."]
    io_read: Annotated[float, "Change of this part."]
    io_write: Annotated[float, "Change of this part."]
    tail: Annotated[float, "Change of this part."]
    rest: Annotated[float, "Change of this part."]


class CompareCause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a change happened."""

    cause: Annotated[str, "kind:name, such as `metric:compute_ms`, `conf:KEY` or `query:NAME`."]
    share_of_change: Annotated[float | None, "Its part of the change; null if it cannot be told."]
    sentence: Annotated[str, "What happened, in words."]


class CompareChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change, ranked by its part in the whole."""

    rank: Annotated[int, Meta(ge=1), "Rank of the query by contribution; a stage has its query's."]
    query: Annotated[CompareQuery, "The query."]
    stage: Annotated[CompareStage | None, "The stage; null for the query as a whole."]
    kind: Annotated[
        Literal[
            "rate",
            "data",
            "skew",
            "structure",
            "memory",
            "host",
            "environment",
            "contention",
            "added",
            "removed",
        ],
        "What kind of change it is.",
    ]
    before_ms: Annotated[
        float, "Mean over runs before; of a stage, its time on the chain that held the query up."
    ]
    after_ms: Annotated[float, "The same after."]
    contribution_ms: ContributionMs
    interval_ms: IntervalMs
    share: Annotated[float, Meta(ge=0), "Its size among those of all queries' changes, either way."]
    runs: Runs
    runs_ms: Annotated[
        list[list[float]],
        Meta(min_length=2, max_length=2),
        "Its time in each run, before and after.",
    ]
    q_value: Annotated[float | None, "Least q-value of its tests; null if untested."]
    evidence: Annotated[
        list[Literal["time", "cpu", "bytes", "skew"]], "Measures whose test says changed."
    ]
    parts_ms: Annotated[ComparePart, "Parts of the contribution; they sum to it."]
    causes: Annotated[list[CompareCause], "Why, the largest first."]
    parent: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        "Place of its query's change in this list; null for a query.",
    ]


class CompareEffect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a query adds to the change."""

    query: Annotated[CompareQuery, "The query."]
    before_ms: Annotated[float, "Mean over runs before."]
    after_ms: Annotated[float, "Mean over runs after."]
    contribution_ms: ContributionMs
    interval_ms: IntervalMs
    runs: Runs


class CompareUnclear(CompareEffect, frozen=True):
    """A query of which the runs cannot tell whether it changed."""

    runs_needed: Annotated[
        int, Meta(ge=0), "Runs a side that would tell in four of five cases; 0 if unknown."
    ]


class CompareGate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the gate decided."""

    passed: Annotated[bool, "Whether no query is slower than allowed."]
    failures: Annotated[list[str], "A line for each query that failed."]


class CompareExplanation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters that go with a change."""

    query: Annotated[CompareQuery, "The query."]
    stage: Annotated[CompareStage | None, "The stage; null for the query as a whole."]
    parameter: Annotated[str | None, "What best tells the sides apart; null if nothing does."]
    value: Annotated[float | str | None, "A number: it is above. A text: it is this."]
    gain: Annotated[float | None, "Bits about the side that the answer gives, at most 1."]
    equally_good: Annotated[list[str], "Other parameters that tell as much."]
    sentence: Annotated[str | None, "The answer that most runs after gave, and how many did."]


class ComparisonResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `iqcar compare --json` writes.

    Durations are milliseconds. Null is unknown, never zero.
    """

    schema_version: Annotated[
        Literal["1"], "Changes when a reader of this file would have to change."
    ]
    iqcar_version: Annotated[str, "The version of iqcar that wrote it."]
    before: Annotated[CompareSide, "The runs before."]
    after: Annotated[CompareSide, "The runs after."]
    margin: Annotated[float, Meta(gt=0), "Relative change of time that is none."]
    alpha: Annotated[float, Meta(gt=0), "Level of the tests."]
    total_ms: Annotated[
        CompareTotal, "Time of the queries of both sides in a run, each run as often on both."
    ]
    headline: Annotated[str, "How many queries changed, and which most, by how much and why."]
    different: Annotated[CompareDifferent, "What differs besides the queries; listed, not blamed."]
    changes: Annotated[
        list[CompareChange], "What changed: queries by contribution, each followed by its stages."
    ]
    same: Annotated[list[CompareEffect], "Queries that did not change by more than the margin."]
    cannot_tell: Annotated[list[CompareUnclear], "Queries of which too few runs tell."]
    gate: Annotated[CompareGate | None, "The gate; null if no --fail-on was given."]
    doubts: Annotated[list[str], "What makes the result doubtful."]
    explanation: Annotated[
        CompareExplanation | None,
        "What tells the runs of one change apart; null if --explain was not given.",
    ]


def compare_schema() -> str:
    """Return the JSON Schema of what ``iqcar compare`` writes, as text."""
    return schema_text(
        ComparisonResult, title="iqcar compare", identity="https://iqcar.org/compare.schema.json"
    )


def compare_to_json(
    comparison: Comparison, gate: Gate | None = None, explained: Explanation | None = None
) -> bytes:
    """Encode a comparison, with what its gate and explanation said; what is unknown is null."""
    fields = {
        **compare_to_dict(comparison, gate),
        "explanation": None if explained is None else _explanation(comparison, explained),
    }
    return json_bytes(fields, indent=1) + b"\n"


def compare_to_dict(comparison: Comparison, gate: Gate | None = None) -> dict[str, Any]:
    """Lay a comparison out as the JSON object."""
    different = comparison.different
    before, after = comparison.total_ms
    return {
        **HEAD,
        "before": laid_out(CompareSide, comparison.before),
        "after": laid_out(CompareSide, comparison.after),
        "margin": comparison.margin,
        "alpha": comparison.alpha,
        "total_ms": {"before": before, "after": after},
        "headline": printable(changes_headline(comparison)),
        "different": {
            "conf": [laid_out(CompareSetting, one) for one in different.settings],
            "hosts": {"before": list(different.hosts[0]), "after": list(different.hosts[1])},
            "spark_version": None
            if different.versions is None
            else {"before": list(different.versions[0]), "after": list(different.versions[1])},
        },
        "changes": _changes(comparison),
        "same": [
            _query_effect(comparison, row) for row in comparison.verdict_of(ChangeVerdict.SAME)
        ],
        "cannot_tell": [
            {
                **_query_effect(comparison, row),
                "runs_needed": int(comparison.effects["runs_needed"].iloc[row]),
            }
            for row in comparison.verdict_of(ChangeVerdict.CANNOT_TELL)
        ],
        "gate": None if gate is None else {"passed": gate.passed, "failures": list(gate.failures)},
        "doubts": list(comparison.doubts),
    }


def _explanation(comparison: Comparison, explained: Explanation) -> dict[str, Any]:
    root = int(comparison.categories["query_category"].iloc[explained.category])
    split = explained.split
    return {
        "query": _query(comparison, root),
        "stage": _Examples(comparison).stage(explained.category),
        "parameter": split.parameter if split else None,
        "value": plain(split.value) if split else None,
        "gain": plain(split.gain) if split else None,
        "equally_good": list(split.equally_good) if split else [],
        "sentence": split.sentence if split else None,
    }


def _query(comparison: Comparison, category: int) -> dict[str, Any]:
    row = comparison.categories.iloc[category]
    return {
        key: row[key] or None for key in ("name_before", "name_after", "fingerprint", "matched_by")
    }


def _query_effect(comparison: Comparison, category: int) -> dict[str, Any]:
    effect = comparison.effects.iloc[category]
    return {
        "query": _query(comparison, category),
        "before_ms": plain(effect["before_ms"]),
        "after_ms": plain(effect["after_ms"]),
        "contribution_ms": plain(effect["contribution_ms"]),
        "interval_ms": [plain(effect["low_ms"]), plain(effect["high_ms"])],
        "runs": [int(effect["runs_before"]), int(effect["runs_after"])],
    }


def _changes(comparison: Comparison) -> list[dict[str, Any]]:
    categories, causes = comparison.categories, comparison.causes
    roots = categories["query_category"].tolist()
    examples = _Examples(comparison)
    of_change: dict[int, list[dict[str, Any]]] = {}
    for change, cause, share, sentence in causes.itertuples(index=False):
        of_change.setdefault(change, []).append(
            {"cause": cause, "share_of_change": plain(share), "sentence": sentence}
        )
    values = _Values(comparison)
    found = []
    for number, row in enumerate(comparison.changes.to_dict("records")):
        category = row["category"]
        effect = comparison.effects.iloc[category]
        found.append(
            {
                "rank": row["rank"],
                "query": _query(comparison, roots[category]),
                "stage": examples.stage(category),
                "kind": row["kind"],
                "before_ms": plain(row["before_ms"]),
                "after_ms": plain(row["after_ms"]),
                "contribution_ms": plain(row["contribution_ms"]),
                "interval_ms": [plain(row["low_ms"]), plain(row["high_ms"])],
                "share": plain(row["share"]),
                "runs": [row["runs_before"], row["runs_after"]],
                "runs_ms": [values.of(category, side) for side in (0, 1)],
                "q_value": plain(row["q_value"]),
                "evidence": [word for word in row["evidence"].split(", ") if word],
                "parts_ms": {
                    name.removesuffix("_ms"): plain(effect[f"{name.removesuffix('_ms')}_change_ms"])
                    for name in PART_NAMES
                },
                "causes": of_change.get(number, []),
                "parent": None if row["parent"] < 0 else row["parent"],
            }
        )
    return found


class _Values:
    """Time of a category in each run."""

    def __init__(self, comparison: Comparison) -> None:
        runs = comparison.category_runs
        self._found: dict[tuple[int, int], list[float]] = {}
        for category, side, time in zip(
            runs["category"].tolist(), runs["side"].tolist(), runs["time_ms"].tolist(), strict=True
        ):
            self._found.setdefault((category, side), []).append(time)

    def of(self, category: int, side: int) -> list[float]:
        return self._found.get((category, side), [])


class _Examples:
    """Stages of the logs that stand for a category."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        categories = comparison.categories
        self._kind = texts(categories, "kind")
        self._of = [_first_rows(side) for side in comparison.sides]
        self._nodes = [_first_nodes(comparison, number) for number in (0, 1)]

    def stage(self, category: int) -> dict[str, Any] | None:
        """Return a stage, or the driver, as JSON; None for a query."""
        if self._kind[category] == "query":
            return None
        row = self._comparison.categories.iloc[category]
        driver = self._kind[category] == "driver"
        return {
            "label": "driver" if driver else row["label"],
            "number": int(row["ordinal"]) + 1,
            "operators": row["operators"].split("; ") if row["operators"] else [],
            "before": self._example(category, 0),
            "after": self._example(category, 1),
        }

    def _example(self, category: int, side: int) -> dict[str, Any] | None:
        tables = self._comparison.sides[side].tables
        row = self._of[side].get(self._nodes[side].get(category, -1))
        if tables is None or row is None:
            return None
        app = int(tables.stages["app"].iloc[row])
        return {
            "application_id": tables.applications["application_id"].iloc[app],
            "stage_id": int(tables.stages["stage_id"].iloc[row]),
        }


def _first_rows(side: Side) -> dict[int, int]:
    if side.rows is None:
        return {}
    nodes, first = np.unique(side.rows.stage_node, return_index=True)
    return dict(zip(nodes.tolist(), first.tolist(), strict=True))


def _first_nodes(comparison: Comparison, side: int) -> dict[int, int]:
    categories, first = np.unique(comparison.category_of[side], return_index=True)
    return dict(zip(categories.tolist(), first.tolist(), strict=True))
