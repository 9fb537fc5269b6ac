"""Declares the results on topics."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Topic = Annotated[int, Meta(description="Number of the topic.", ge=0)]
Kind = Annotated[
    Literal["query", "own", "known", "unattributed", "rest"],
    Meta(description="Whom it is put down to."),
]
QueryId = Annotated[
    str | None, Meta(description="The query; null for known, unattributed and rest.")
]
Share = Annotated[float, Meta(description="Its part, 0 to 1.", ge=0, le=1.000001)]
Tasks = Annotated[int, Meta(description="Tasks that it is estimated from.", ge=0)]


class ResultTopicBlamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whom the waits of stragglers of one topic are blamed on."""

    topic: Topic
    resource: Annotated[
        Literal["slots", "executors", "cpu", "memory", "network", "io"],
        Meta(description="What it lacks."),
    ]
    kind: Kind
    query_id: QueryId
    name: Annotated[str | None, Meta(description="Its name.")]
    lost_ms: Annotated[float, Meta(description="Task time lost to it there and then.", ge=0)]
    share: Share


class ResultTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One topic."""

    topic: Annotated[int, Meta(description="Its number.", ge=0)]
    key: Annotated[
        str | None, Meta(description="Key in rules/topics.json; null if no name fits alone.")
    ]
    name: Annotated[str, Meta(description="What it is called.")]
    sentence: Annotated[str, Meta(description="What it means.")]
    resource: Annotated[
        str | None, Meta(description="The resource that is lacking, if it is such a topic.")
    ]
    keywords: Annotated[
        dict[str, Any],
        Meta(
            description="Weights by word, summing to 1; (+) where stragglers have more of a "
            "metric, (-) less."
        ),
    ]
    jobs: Annotated[int, Meta(description="Stages that have it.", ge=0)]
    coverage: Annotated[
        float, Meta(description="Share of the stages that have it.", ge=0, le=1.000001)
    ]
    dominant_coverage: Annotated[
        float,
        Meta(
            description="Share of the stages most of whose stragglers it explains.",
            ge=0,
            le=1.000001,
        ),
    ]
    mean_share: Annotated[
        float, Meta(description="Its mean part of the mixtures.", ge=0, le=1.000001)
    ]


class ResultTopicCause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Topics of one name."""

    name: Annotated[str, Meta(description="The name.")]
    topics: Annotated[list[int], Meta(description="Their numbers.")]
    jobs: Annotated[int, Meta(description="Stages that have one.", ge=0)]
    coverage: Annotated[
        float, Meta(description="Share of the stages that have one.", ge=0, le=1.000001)
    ]
    dominant_coverage: Annotated[
        float,
        Meta(
            description="Share of the stages most of whose stragglers they explain.",
            ge=0,
            le=1.000001,
        ),
    ]
    mean_share: Annotated[
        float, Meta(description="Their mean part of the mixtures.", ge=0, le=1.000001)
    ]


class ResultStragglerTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many stragglers of a stage belong to a topic."""

    topic: Topic
    stragglers: Annotated[int, Meta(description="Stragglers whose own features bear it out.", ge=0)]


class ResultTopicStage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The mixture of one stage."""

    app: Annotated[str, Meta(description="Its application.")]
    stage: Annotated[str, Meta(description="Stage id, attempt and name; of a trace the job.")]
    query_id: Annotated[str | None, Meta(description="Its query.")]
    tasks: Annotated[int, Meta(description="Tasks.", ge=0)]
    stragglers: Annotated[int, Meta(description="Stragglers.", ge=0)]
    delay_ms: Annotated[float, Meta(description="Their time over the median.", ge=0)]
    dominant: Annotated[int | None, Meta(description="The topic of most of its stragglers.")]
    mixture: Annotated[
        list[dict[str, Any]],
        Meta(description="Topics with their shares, which sum to 1; empty if it has none."),
    ]
    blamed: Annotated[
        list[ResultTopicBlamed],
        Meta(
            description="For topics that lack a resource: whom iQCAR blames for that, on the "
            "hosts and during the stragglers that have the topic; shares sum to 1 per "
            "topic."
        ),
    ]
    straggler_topics: Annotated[
        list[ResultStragglerTopic],
        Meta(
            description="How many of its stragglers bear out which topic of the mixture; those "
            "that bear out none are left out."
        ),
    ]


class ResultTopics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Causes of stragglers that recur in many stages."""

    settings: Annotated[dict[str, Any], Meta(description="The thresholds, see docs/topics.md.")]
    count: Annotated[int, Meta(description="Topics.", ge=0)]
    jobs: Annotated[int, Meta(description="Stages with enough tasks and a straggler.", ge=0)]
    reason: Annotated[str | None, Meta(description="Why there are no topics; null if there are.")]
    topics: Annotated[list[ResultTopic], Meta(description="The most frequent first.")]
    causes: Annotated[
        list[ResultTopicCause],
        Meta(description="Topics of one name together; the largest dominant coverage first."),
    ]
    causes_per_job: Annotated[
        list[dict[str, Any]],
        Meta(description="Share of the stages by how many causes their mixture has."),
    ]
    stages: Annotated[list[ResultTopicStage], Meta(description="Mixture of every stage.")]
    queries: Annotated[
        list[dict[str, Any]],
        Meta(
            description="Mixture of every query: that of its stages, weighed by their stragglers."
        ),
    ]
    evidence: Annotated[
        dict[str, Any],
        Meta(
            description="Keywords of stages' topics checked by a rank-sum test and quartiles, and "
            "the share that agree."
        ),
    ]
    advice: Annotated[
        list[dict[str, Any]],
        Meta(description="What to do about each topic; for people, no pool is made from it."),
    ]
    doubts: Annotated[
        list[str], Meta(description="What is doubtful about topics, one sentence each.")
    ]
