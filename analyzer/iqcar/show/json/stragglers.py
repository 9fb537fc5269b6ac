"""Stragglers as JSON: in the result of ``iqcar analyze``, and alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
import pandas as pd
from msgspec import UNSET, Meta, UnsetType

from iqcar.causes.stragglers.straggler_result import Labels, Stragglers, by_cause, by_group
from iqcar.rules.vocabulary import straggler_cause, what_helps
from iqcar.show.json.described import plain
from iqcar.show.json.topics import Kind, QueryId, ResultTopicBlamed, Share, Topic

Cause = Annotated[
    Literal[
        "task-failed",
        "fetch-failed",
        "executor-lost",
        "preempted",
        "slot-taken",
        "speculation",
        "cancelled",
        "not-needed",
    ],
    "Why work was wasted; `WasteCause` in kinds.md.",
]
Attempts = Annotated[int, Meta(ge=0), "Task attempts that were of no use."]
Again = Annotated[int, Meta(ge=0), "Those among them that did again what had been done."]
TaskMs = Annotated[float, Meta(ge=0), "Task time: the sum of their durations."]
ElapsedMs = Annotated[float, Meta(ge=0), "How much later queries ended for it; estimated."]


class ResultLinkedTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic that a cause belongs to."""

    topic: Topic
    name: Annotated[str, "Its name."]
    stragglers: Annotated[int, Meta(ge=0), "Stragglers with cause and topic."]


class ResultLinkedCause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cause of stragglers of a query."""

    cause: Annotated[str | None, "Key in rules/causes.json; null for stragglers without a cause."]
    name: Annotated[str, "Its name."]
    stragglers: Annotated[int, Meta(ge=0), "Stragglers with the cause."]
    delay_ms: Annotated[float, Meta(ge=0), "What they took over the median."]
    topics: Annotated[
        list[ResultLinkedTopic],
        "Topics that they bear out, the most delay first; empty where none were looked for.",
    ]


class ResultQueryStragglers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stragglers of a query."""

    count: Annotated[int, Meta(ge=0), "Stragglers of the query."]
    delay_ms: Annotated[float, Meta(ge=0), "What they took over the median, in all."]
    causes: Annotated[
        list[ResultLinkedCause],
        "By cause, the most delay first; a straggler with two causes counts in both.",
    ]
    blamed: Annotated[
        list[ResultTopicBlamed],
        "Whom iQCAR blames for what topics lack, on the hosts and during the stragglers that have"
        " them; empty where none were looked for.",
    ]


class ResultWastedByCause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Work that was wasted for one cause."""

    cause: Cause
    attempts: Attempts
    again: Again
    task_ms: TaskMs
    elapsed_ms: ElapsedMs


class ResultWastedByQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Work of one query that was wasted for one cause."""

    query_id: Annotated[str, "The query."]
    cause: Cause
    cause_name: Annotated[str, "What the cause is called; kinds of lost executor are told apart."]
    attempts: Attempts
    again: Again
    task_ms: TaskMs
    elapsed_ms: Annotated[
        float,
        Meta(ge=0),
        "How much later the query ended for it; estimated. All causes of a query sum to at most "
        "its duration.",
    ]
    share_of_duration: Annotated[
        float, Meta(ge=0, le=1.000001), "elapsed_ms as a share of the query's duration."
    ]
    executors: Annotated[int, Meta(ge=0), "Executors whose loss or shuffle output caused it."]
    executor_id: Annotated[str, "The one among them that cost most; empty if none."]
    message: Annotated[str, "What Spark said of what cost most, in a line; empty if nothing."]
    taken: Annotated[int, Meta(ge=0), "Attempts whose slot a task of a known query got then."]
    taken_by: Annotated[str, "The query that got most of them; empty if none."]
    taken_by_pool: Annotated[str, "Its scheduler pool; empty if not known."]
    sentence: Annotated[str, "All of this in words."]
    advice: Annotated[str, "What helps."]


class ResultWastedWork(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Work that was of no use."""

    attempts: Attempts
    again: Again
    task_ms: TaskMs
    elapsed_ms: ElapsedMs
    share: Annotated[float, Meta(ge=0, le=1.000001), "task_ms as a share of all task time."]
    evidence: Annotated[Literal["estimated"], "How well elapsed times are known."]
    by_cause: Annotated[list[ResultWastedByCause], "Sums by cause, the most task time first."]
    by_query: Annotated[
        list[ResultWastedByQuery], "What each cause cost each query, the most elapsed time first."
    ]


class ResultCauseCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many stragglers have one cause."""

    cause: Annotated[str | None, "Key of the cause; null for those that nothing explains."]
    name: Annotated[str, "Its plain name."]
    stragglers: Annotated[int, Meta(ge=0), "Stragglers with it."]
    delay_ms: Annotated[float, Meta(ge=0), "Their time over the median, summed."]


class ResultStragglerGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stragglers of one stage, query or host."""

    tasks: Annotated[int, Meta(ge=0), "Tasks compared."]
    stragglers: Annotated[int, Meta(ge=0), "Stragglers among them."]
    delay_ms: Annotated[float, Meta(ge=0), "Time over the median, summed."]
    causes: Annotated[dict[str, int], "Stragglers by cause; one with two causes counts in both."]
    app: Annotated[str | UnsetType, "Application, beside a stage."] = UNSET
    stage: Annotated[str | UnsetType, "Stage id, attempt and name."] = UNSET
    query: Annotated[str | UnsetType, "Query id."] = UNSET
    host: Annotated[str | UnsetType | None, "Host."] = UNSET


class ResultBlamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the blame for one cause; the parts sum to 1."""

    kind: Kind
    query_id: QueryId
    name: Annotated[str | None, "Its name."]
    share: Share


class ResultStragglerCause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cause of one straggler, with the evidence."""

    cause: Annotated[str, "Key of the cause in rules/causes.json; a trace's metric."]
    feature: Annotated[str, "The feature that says so; of several the first one."]
    unit: Annotated[str, "Unit of value, peer_mean and quantile."]
    value: Annotated[float, Meta(ge=0), "The straggler's; a share of its duration for times."]
    peer_mean: Annotated[float | None, "Mean of its peers; for a wait what was to expect."]
    quantile: Annotated[float | None, "The stage's quantile that it is above."]
    ratio: Annotated[
        float | None, "Value over mean; null for a state, and where the peers had none."
    ]
    peers: Annotated[str, "Which peers it stood out from."]
    explained: Annotated[float | None, "Share of the delay that a measured wait explains."]
    evidence: Annotated[
        Literal["paper", "measured"],
        "measured, if by the task's own measured wait; else by comparison with its peers.",
    ]
    sentence: Annotated[str, "The same in words."]
    blamed: Annotated[
        list[ResultBlamed],
        "Who iQCAR blames for that resource, there and then; empty for other causes.",
    ]


class ResultStraggler(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One straggler."""

    app: Annotated[str, "Application, or the trace's file."]
    stage: Annotated[str, "Stage id, attempt and name; a trace's job."]
    query_id: Annotated[str | None, "Its query."]
    host: Annotated[str | None, "The machine it ran on."]
    task: Annotated[str, "Task id."]
    launch_ms: Annotated[float | None, "When it was launched."]
    duration_ms: Annotated[float, Meta(ge=0), "Launch to finish."]
    median_ms: Annotated[float, Meta(ge=0), "Median duration in its stage."]
    delay_ms: Annotated[float, Meta(ge=0), "Its duration less the median."]
    causes: Annotated[list[ResultStragglerCause], "Why; empty where nothing explains it."]


class ResultAdvice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a Spark engineer would do about one cause."""

    kind: Annotated[Literal["advice"], "It is for people; scheduler rules are in `rules`."]
    cause: Annotated[str, "Key of the cause."]
    name: Annotated[str, "Its plain name."]
    sentence: Annotated[str, "What it means."]
    advice: Annotated[str, "What to do."]


class ResultStragglers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks that were slower than their stage, and why."""

    settings: Annotated[dict[str, Any], "The thresholds, see docs/stragglers.md."]
    compared_tasks: Annotated[
        int, Meta(ge=0), "Tasks compared: those that succeeded, in stages of enough tasks."
    ]
    count: Annotated[
        int, Meta(ge=0), "Stragglers: tasks that took more than 1.5 times their stage's median."
    ]
    explained: Annotated[int, Meta(ge=0), "Those with a cause."]
    delay_ms: Annotated[float, Meta(ge=0), "Time over the median, summed over all stragglers."]
    by_cause: Annotated[
        list[ResultCauseCount], "Stragglers per cause; one with two causes counts in both."
    ]
    by_stage: Annotated[list[ResultStragglerGroup], "Stragglers per stage."]
    by_query: Annotated[list[ResultStragglerGroup], "Stragglers per query."]
    by_host: Annotated[list[ResultStragglerGroup], "Stragglers per host."]
    worst: Annotated[
        list[ResultStraggler],
        "The most delayed first: 100 of them, all in `iqcar stragglers --json`.",
    ]
    advice: Annotated[
        list[ResultAdvice], "What to do about each cause; for people, no pool is made from it."
    ]
    doubts: Annotated[list[str], "What is doubtful about stragglers, one sentence each."]


WORST = 100
"""Stragglers in the result of a diagnosis, the most delayed ones; ``iqcar stragglers`` has all."""


def stragglers_to_dict(found: Stragglers, most: int | None = WORST) -> dict[str, Any]:
    """Lay stragglers out as JSON; numbers nobody knows become None.

    most: how many stragglers to list; all by default.
    """
    labels = found.labels
    shown = found.stragglers if most is None else found.stragglers.head(most)
    return {
        "settings": found.settings.to_dict(),
        "compared_tasks": found.tasks,
        "count": len(found.stragglers),
        "explained": int((found.stragglers["causes"] > 0).sum()),
        "delay_ms": float(found.stragglers["delay_ms"].sum()),
        "by_cause": [_cause_count(row) for row in by_cause(found).to_dict("records")],
        "by_stage": _groups(found, "stage", labels.stage),
        "by_query": _groups(found, "query", labels.query_id),
        "by_host": _groups(found, "host", labels.host),
        "worst": _worst(found, shown),
        "advice": _advice(found),
        "doubts": list(found.doubts),
    }


def _cause_count(row: dict[Any, Any]) -> dict[str, Any]:
    key = row["cause"]
    return {
        "cause": key or None,
        "name": straggler_cause(key).name,
        "stragglers": int(row["stragglers"]),
        "delay_ms": float(row["delay_ms"]),
    }


def _groups(found: Stragglers, group: str, name: Callable[[int], str]) -> list[dict[str, Any]]:
    frame = by_group(found, group)
    apps = found.compared_stages.drop_duplicates("stage").set_index("stage")["app"]
    rows = []
    for row in frame[(frame[group] >= 0).to_numpy()].to_dict("records"):
        of_app = {"app": found.labels.app(int(apps[row["stage"]]))} if group == "stage" else {}
        rows.append(
            {
                **of_app,
                group: name(int(row[group])),
                "tasks": int(row["tasks"]),
                "stragglers": int(row["stragglers"]),
                "delay_ms": float(row["delay_ms"]),
                "causes": row["causes"],
            }
        )
    return rows


def _worst(found: Stragglers, shown: pd.DataFrame) -> list[dict[str, Any]]:
    labels = found.labels
    causes: dict[int, list[dict[str, Any]]] = {}
    mine = found.causes[(found.causes["straggler"] < len(shown)).to_numpy()]
    sources = _sources(found.sources[found.sources["cause"].isin(mine.index)], labels)
    for number, row in zip(mine.index.tolist(), mine.to_dict("records"), strict=True):
        straggler = int(row.pop("straggler"))
        cells = {key: plain(value) for key, value in row.items()}
        causes.setdefault(straggler, []).append({**cells, "blamed": sources.get(number, [])})
    return [
        {
            "app": labels.app(one["app"]),
            "stage": labels.stage(one["stage"]),
            "query_id": labels.query_id(one["query"]) or None,
            "host": labels.host(one["host"]) or None,
            "task": labels.task(one["task"], one["task_id"]),
            "launch_ms": plain(one["launch_ms"]),
            "duration_ms": one["duration_ms"],
            "median_ms": one["median_ms"],
            "delay_ms": one["delay_ms"],
            "causes": causes.get(row, []),
        }
        for row, one in enumerate(shown.to_dict("records"))
    ]


def _sources(sources: pd.DataFrame, labels: Labels) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in sources.to_dict("records"):
        query = row["query"]
        found.setdefault(int(row["cause"]), []).append(
            {
                "kind": row["kind"],
                "query_id": labels.query_id(query) or None,
                "name": labels.query(query) or None,
                "share": row["share"],
            }
        )
    return found


def _advice(found: Stragglers) -> list[dict[str, Any]]:
    """What to do about each cause; marked as advice, because no pool is made from it."""
    rows = []
    for row in by_cause(found).to_dict("records"):
        known = straggler_cause(row["cause"]) if row["cause"] else None
        if known is not None and (helps := what_helps(row["cause"], found)):
            what = {"name": known.name, "sentence": known.sentence, "advice": helps}
            rows.append({"kind": "advice", "cause": row["cause"], **what})
    return rows
