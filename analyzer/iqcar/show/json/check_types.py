"""Declares what ``iqcar rules check --json`` writes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

PredictedPercent = Annotated[
    float | None,
    "What a replay of the first run under the rules' pools predicted; null if it could not be "
    "replayed.",
]
OffPercent = Annotated[float | None, "Predicted less actual change, in percentage points."]


class CheckQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recurring query that ended in both runs."""

    fingerprint: Annotated[str, "Equal for every run of the same recurring query."]
    name: Annotated[str, "What the user calls it."]
    runs_before: Annotated[int, Meta(ge=0), "Runs that ended in the first run."]
    runs_after: Annotated[int, Meta(ge=0), "Runs that ended in the second."]
    before_ms: Annotated[float, Meta(ge=0), "Mean duration of the runs before."]
    after_ms: Annotated[float, Meta(ge=0), "Mean duration of the runs after."]
    change_percent: Annotated[float, "From before to after."]
    predicted_percent: PredictedPercent
    off_percent: OffPercent
    told: Annotated[
        Literal["cannot_tell", "changed", "same"],
        "What the runs tell of the difference, as in `iqcar compare`.",
    ]


class CheckTotal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Recurring queries together."""

    queries: Annotated[int, Meta(ge=0), "Recurring queries."]
    before_ms: Annotated[float, Meta(ge=0), "Durations before, each query as often as it ran then."]
    after_ms: Annotated[float, Meta(ge=0), "The same with the durations after."]
    change_percent: Annotated[float, "From before to after."]
    predicted_percent: PredictedPercent
    off_percent: OffPercent


class CheckTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recurring topic of a rule, and what became of it."""

    topic: Annotated[str, "A key of rules/topics.json; empty if no name fits alone."]
    name: Annotated[str, "What it is called."]
    resource: Annotated[str, "What it is a lack of; empty if it is none."]
    weight: Annotated[
        float, Meta(ge=0, le=1), "Part of the stragglers that had it as the rule was made."
    ]
    before: Annotated[
        float | None,
        "Part of the tasks of the rule's victims that are stragglers and have it, in the first "
        "run; null if it cannot be known.",
    ]
    after: Annotated[float | None, "The same in the second."]
    change: Annotated[
        Literal["as-before", "more", "rarer", "unknown"],
        "From before to after; rarer and more: by a factor of two.",
    ]


class CheckRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule and what became of it."""

    id: Annotated[str, "Its id in the rules file."]
    query_name: Annotated[str, "The query it is for."]
    pool: Annotated[str, "The pool that it was compiled to; empty if none."]
    applied: Annotated[
        Literal["yes", "partly", "no", "no-pool", "not-run"],
        "Whether the query's stages ran in that pool, under FAIR.",
    ]
    ran_in: Annotated[
        dict[str, Annotated[int, Meta(ge=0)]],
        "Pools that the query's stages ran in, and how many in each.",
    ]
    verdict: Annotated[
        Literal["disturbed", "helped", "no-change", "slower", "unknown"],
        "What became of its victims: by 1 % or more faster, or slower.",
    ]
    victims: Annotated[
        int, Meta(ge=0), "Recurring queries that it was to help and that ended in both runs."
    ]
    change_percent: Annotated[float | None, "From before to after."]
    predicted_percent: PredictedPercent
    off_percent: OffPercent
    sentence: Annotated[str, "The same in words."]
    told: Annotated[
        Literal["cannot_tell", "changed", "same"] | None,
        "What the runs of its victims tell, as in `iqcar compare`: changed if one did, and none "
        "the other way; null without victims.",
    ]
    topics: Annotated[list[CheckTopic], "The rule's recurring topics, among its victims."] = []


class RulesCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `iqcar rules check --json` writes.

    Durations are milliseconds. Null is unknown, never zero.
    """

    schema_version: Annotated[
        Literal["1"], "Changes when a reader of this file would have to change."
    ]
    iqcar_version: Annotated[str, "The version of iqcar that wrote it."]
    queries: Annotated[
        list[CheckQuery], "Recurring queries that ended in both runs, the longest first."
    ]
    total: Annotated[CheckTotal | None, "All of them together; null if there are none."]
    controls: Annotated[
        CheckTotal | None,
        "Queries that no rule is about and no rule is to help: if they changed by more than "
        "predicted, something else than the rules changed. Null if there are none.",
    ]
    rules: Annotated[list[CheckRule], "In the order of the rules file."]
    only_before: Annotated[list[str], "Names of queries that ended in the first run only."]
    only_after: Annotated[list[str], "Names of queries that ended in the second run only."]
    doubts: Annotated[list[str], "What could not be found out, one sentence each."]
