"""Declares what ``iqcar rules check --json`` writes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

PredictedPercent = Annotated[
    float | None,
    Meta(
        description="What a replay of the first run under the rules' pools predicted; null if "
        "it could not be replayed."
    ),
]
OffPercent = Annotated[
    float | None, Meta(description="Predicted less actual change, in percentage points.")
]


class CheckQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recurring query that ended in both runs."""

    fingerprint: Annotated[
        str, Meta(description="Equal for every run of the same recurring query.")
    ]
    name: Annotated[str, Meta(description="What the user calls it.")]
    runs_before: Annotated[int, Meta(description="Runs that ended in the first run.", ge=0)]
    runs_after: Annotated[int, Meta(description="Runs that ended in the second.", ge=0)]
    before_ms: Annotated[float, Meta(description="Mean duration of the runs before.", ge=0)]
    after_ms: Annotated[float, Meta(description="Mean duration of the runs after.", ge=0)]
    change_percent: Annotated[float, Meta(description="From before to after.")]
    predicted_percent: PredictedPercent
    off_percent: OffPercent
    told: Annotated[
        Literal["cannot_tell", "changed", "same"],
        Meta(description="What the runs tell of the difference, as in `iqcar compare`."),
    ]


class CheckTotal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Recurring queries together."""

    queries: Annotated[int, Meta(description="Recurring queries.", ge=0)]
    before_ms: Annotated[
        float, Meta(description="Durations before, each query as often as it ran then.", ge=0)
    ]
    after_ms: Annotated[float, Meta(description="The same with the durations after.", ge=0)]
    change_percent: Annotated[float, Meta(description="From before to after.")]
    predicted_percent: PredictedPercent
    off_percent: OffPercent


class CheckTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recurring topic of a rule, and what became of it."""

    topic: Annotated[
        str, Meta(description="A key of rules/topics.json; empty if no name fits alone.")
    ]
    name: Annotated[str, Meta(description="What it is called.")]
    resource: Annotated[str, Meta(description="What it is a lack of; empty if it is none.")]
    weight: Annotated[
        float,
        Meta(description="Part of the stragglers that had it as the rule was made.", ge=0, le=1),
    ]
    before: Annotated[
        float | None,
        Meta(
            description="Part of the tasks of the rule's victims that are stragglers and have it, "
            "in the first run; null if it cannot be known."
        ),
    ]
    after: Annotated[float | None, Meta(description="The same in the second.")]
    change: Annotated[
        Literal["as-before", "more", "rarer", "unknown"],
        Meta(description="From before to after; rarer and more: by a factor of two."),
    ]


class CheckRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule and what became of it."""

    id: Annotated[str, Meta(description="Its id in the rules file.")]
    query_name: Annotated[str, Meta(description="The query it is for.")]
    pool: Annotated[str, Meta(description="The pool that it was compiled to; empty if none.")]
    applied: Annotated[
        Literal["yes", "partly", "no", "no-pool", "not-run"],
        Meta(description="Whether the query's stages ran in that pool, under FAIR."),
    ]
    ran_in: Annotated[
        dict[str, Annotated[int, Meta(ge=0)]],
        Meta(description="Pools that the query's stages ran in, and how many in each."),
    ]
    verdict: Annotated[
        Literal["disturbed", "helped", "no-change", "slower", "unknown"],
        Meta(description="What became of its victims: by 1 % or more faster, or slower."),
    ]
    victims: Annotated[
        int,
        Meta(
            description="Recurring queries that it was to help and that ended in both runs.", ge=0
        ),
    ]
    change_percent: Annotated[float | None, Meta(description="From before to after.")]
    predicted_percent: PredictedPercent
    off_percent: OffPercent
    sentence: Annotated[str, Meta(description="The same in words.")]
    told: Annotated[
        Literal["cannot_tell", "changed", "same"] | None,
        Meta(
            description="What the runs of its victims tell, as in `iqcar compare`: changed if one "
            "did, and none the other way; null without victims."
        ),
    ]
    topics: Annotated[
        list[CheckTopic], Meta(description="The rule's recurring topics, among its victims.")
    ] = []


class RulesCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `iqcar rules check --json` writes.

    Durations are milliseconds. Null is unknown, never zero.
    """

    schema_version: Annotated[
        Literal["1"], Meta(description="Changes when a reader of this file would have to change.")
    ]
    iqcar_version: Annotated[str, Meta(description="The version of iqcar that wrote it.")]
    queries: Annotated[
        list[CheckQuery],
        Meta(description="Recurring queries that ended in both runs, the longest first."),
    ]
    total: Annotated[
        CheckTotal | None, Meta(description="All of them together; null if there are none.")
    ]
    controls: Annotated[
        CheckTotal | None,
        Meta(
            description="Queries that no rule is about and no rule is to help: if they changed by "
            "more than predicted, something else than the rules changed. Null if there "
            "are none."
        ),
    ]
    rules: Annotated[list[CheckRule], Meta(description="In the order of the rules file.")]
    only_before: Annotated[
        list[str], Meta(description="Names of queries that ended in the first run only.")
    ]
    only_after: Annotated[
        list[str], Meta(description="Names of queries that ended in the second run only.")
    ]
    doubts: Annotated[
        list[str], Meta(description="What could not be found out, one sentence each.")
    ]
