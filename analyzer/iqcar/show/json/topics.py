"""Declares and lays out the results on topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from iqcar.causes.topics.topic_counts import causes_per_job, coverage, query_mixtures
from iqcar.causes.topics.topic_result import Topics
from iqcar.rules.vocabulary import TopicName
from iqcar.say.straggler_sections import names_of

if TYPE_CHECKING:
    from iqcar.causes.stragglers.straggler_result import Labels


def topics_to_dict(found: Topics, names: str = "") -> dict[str, Any]:
    """Lay topics out as JSON; numbers nobody knows become None."""
    named = names_of(found, names)
    rows = found.topics.to_dict("records")
    by_name = coverage(found, [one.name for one in named])
    return {
        "settings": found.settings.to_dict(),
        "count": len(named),
        "jobs": len(found.jobs),
        "reason": found.reason or None,
        "topics": [_topic(found, number, row, named[number]) for number, row in enumerate(rows)],
        "causes": by_name.to_dict("records"),
        "causes_per_job": [
            {"causes": n, "share": share}
            for n, share in causes_per_job(found, [one.name for one in named]).items()
        ],
        "stages": _stages(found),
        "queries": _queries(found),
        "evidence": _evidence(found),
        "advice": _advice(named),
        "doubts": list(found.doubts),
    }


def _topic(found: Topics, number: int, row: dict[Any, Any], name: TopicName) -> dict[str, Any]:
    return {
        "topic": number,
        "key": name.key or None,
        "name": name.name,
        "sentence": name.sentence,
        "resource": name.resource or None,
        "keywords": found.words_of(number),
        "jobs": int(row["jobs"]),
        **{key: float(row[key]) for key in ("coverage", "dominant_coverage", "mean_share")},
    }


def _stages(found: Topics) -> list[dict[str, Any]]:
    labels = found.labels
    mixtures: dict[int, list[dict[str, Any]]] = {}
    for row in found.mixtures.to_dict("records"):
        one = {"topic": int(row["topic"]), "share": float(row["share"])}
        mixtures.setdefault(int(row["job"]), []).append(one)
    blamed = _blamed(found, labels)
    borne_out: dict[int, list[dict[str, int]]] = {}
    for (job, topic), size in found.stragglers.groupby(["job", "topic"], sort=True).size().items():
        borne_out.setdefault(int(job), []).append({"topic": int(topic), "stragglers": int(size)})
    return [
        {
            "app": labels.app(job["app"]),
            "stage": labels.stage(job["stage"]),
            "query_id": labels.query_id(job["query"]) or None,
            "tasks": int(job["tasks"]),
            "stragglers": int(job["stragglers"]),
            "delay_ms": float(job["delay_ms"]),
            "dominant": int(job["dominant"]) if job["dominant"] >= 0 else None,
            "mixture": mixtures.get(number, []),
            "straggler_topics": borne_out.get(number, []),
            "blamed": blamed.get(number, []),
        }
        for number, job in enumerate(found.jobs.to_dict("records"))
    ]


def _blamed(found: Topics, labels: Labels) -> dict[int, list[dict[str, Any]]]:
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in found.sources.to_dict("records"):
        rows.setdefault(int(row["job"]), []).append(
            {
                "topic": int(row["topic"]),
                "resource": row["resource"],
                "kind": row["kind"],
                "query_id": labels.query_id(row["query"]) or None,
                "name": labels.query(row["query"]) or None,
                "lost_ms": float(row["lost_ms"]),
                "share": float(row["share"]),
            }
        )
    return rows


def _queries(found: Topics) -> list[dict[str, Any]]:
    labels = found.labels
    rows: dict[int, dict[str, Any]] = {}
    for row in query_mixtures(found).to_dict("records"):
        query = int(row["query"])
        mine = rows.setdefault(
            query,
            {
                "query_id": labels.query_id(query),
                "name": labels.query(query),
                "stragglers": int(row["stragglers"]),
                "mixture": [],
            },
        )
        mine["mixture"].append({"topic": int(row["topic"]), "share": float(row["share"])})
    return list(rows.values())


def _evidence(found: Topics) -> dict[str, Any]:
    checked = found.validation
    agree = float(checked["agrees"].mean()) if len(checked) else None
    return {"keywords_checked": len(checked), "agree": agree}


def _advice(named: list[TopicName]) -> list[dict[str, Any]]:
    """What to do about each name once; marked as advice, because no pool is made from it."""
    once = {one.name: one for one in named if one.advice}
    return [
        {
            "kind": "advice", "topic": one.key or None, "name": one.name, "sentence": one.sentence,
            "advice": one.advice,
        }
        for one in once.values()
    ]  # fmt: skip


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
        Literal["slots", "executors", "cpu", "memory", "network", "io"], "What it lacks."
    ]
    kind: Kind
    query_id: QueryId
    name: Annotated[str | None, "Its name."]
    lost_ms: Annotated[float, Meta(ge=0), "Task time lost to it there and then."]
    share: Share


class ResultTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One topic."""

    topic: Annotated[int, Meta(ge=0), "Its number."]
    key: Annotated[str | None, "Key in rules/topics.json; null if no name fits alone."]
    name: Annotated[str, "What it is called."]
    sentence: Annotated[str, "What it means."]
    resource: Annotated[str | None, "The resource that is lacking, if it is such a topic."]
    keywords: Annotated[
        dict[str, Any],
        "Weights by word, summing to 1; (+) where stragglers have more of a metric, (-) less.",
    ]
    jobs: Annotated[int, Meta(ge=0), "Stages that have it."]
    coverage: Annotated[float, Meta(ge=0, le=1.000001), "Share of the stages that have it."]
    dominant_coverage: Annotated[
        float, Meta(ge=0, le=1.000001), "Share of the stages most of whose stragglers it explains."
    ]
    mean_share: Annotated[float, Meta(ge=0, le=1.000001), "Its mean part of the mixtures."]


class ResultTopicCause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Topics of one name."""

    name: Annotated[str, "The name."]
    topics: Annotated[list[int], "Their numbers."]
    jobs: Annotated[int, Meta(ge=0), "Stages that have one."]
    coverage: Annotated[float, Meta(ge=0, le=1.000001), "Share of the stages that have one."]
    dominant_coverage: Annotated[
        float, Meta(ge=0, le=1.000001), "Share of the stages most of whose stragglers they explain."
    ]
    mean_share: Annotated[float, Meta(ge=0, le=1.000001), "Their mean part of the mixtures."]


class ResultStragglerTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many stragglers of a stage belong to a topic."""

    topic: Topic
    stragglers: Annotated[int, Meta(ge=0), "Stragglers whose own features bear it out."]


class ResultTopicStage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The mixture of one stage."""

    app: Annotated[str, "Its application."]
    stage: Annotated[str, "Stage id, attempt and name; of a trace the job."]
    query_id: Annotated[str | None, "Its query."]
    tasks: Annotated[int, Meta(ge=0), "Tasks."]
    stragglers: Annotated[int, Meta(ge=0), "Stragglers."]
    delay_ms: Annotated[float, Meta(ge=0), "Their time over the median."]
    dominant: Annotated[int | None, "The topic of most of its stragglers."]
    mixture: Annotated[
        list[dict[str, Any]], "Topics with their shares, which sum to 1; empty if it has none."
    ]
    blamed: Annotated[
        list[ResultTopicBlamed],
        "For topics that lack a resource: whom iQCAR blames for that, on the "
        "hosts and during the stragglers that have the topic; shares sum to 1 per "
        "topic.",
    ]
    straggler_topics: Annotated[
        list[ResultStragglerTopic],
        "How many of its stragglers bear out which topic of the mixture; those "
        "that bear out none are left out.",
    ]


class ResultTopics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Causes of stragglers that recur in many stages."""

    settings: Annotated[dict[str, Any], "The thresholds, see docs/topics.md."]
    count: Annotated[int, Meta(ge=0), "Topics."]
    jobs: Annotated[int, Meta(ge=0), "Stages with enough tasks and a straggler."]
    reason: Annotated[str | None, "Why there are no topics; null if there are."]
    topics: Annotated[list[ResultTopic], "The most frequent first."]
    causes: Annotated[
        list[ResultTopicCause], "Topics of one name together; the largest dominant coverage first."
    ]
    causes_per_job: Annotated[
        list[dict[str, Any]], "Share of the stages by how many causes their mixture has."
    ]
    stages: Annotated[list[ResultTopicStage], "Mixture of every stage."]
    queries: Annotated[
        list[dict[str, Any]],
        "Mixture of every query: that of its stages, weighed by their stragglers.",
    ]
    evidence: Annotated[
        dict[str, Any],
        "Keywords of stages' topics checked by a rank-sum test and quartiles, and "
        "the share that agree.",
    ]
    advice: Annotated[
        list[dict[str, Any]], "What to do about each topic; for people, no pool is made from it."
    ]
    doubts: Annotated[list[str], "What is doubtful about topics, one sentence each."]
