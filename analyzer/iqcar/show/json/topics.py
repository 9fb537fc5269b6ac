"""Topics as JSON: in the result of ``iqcar analyze``, and alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iqcar.causes.topics.topic_counts import causes_per_job, coverage, query_mixtures
from iqcar.causes.topics.topic_result import Topics
from iqcar.rules.vocabulary.topics import TopicName
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
