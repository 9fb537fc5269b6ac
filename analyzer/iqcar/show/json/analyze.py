"""The result as JSON: versioned, described by :class:`DiagnosisResult`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
import pandas as pd
from msgspec import Meta

from iqcar.base.files.json_text import json_bytes
from iqcar.causes.stragglers.straggler_result import Stragglers
from iqcar.causes.topics.topic_result import Topics
from iqcar.diagnosis import Diagnosis
from iqcar.enums import REQUESTS, DemandEvidence, Evidence, Request, Resource
from iqcar.say.finding import Finding
from iqcar.say.findings import find_findings
from iqcar.say.rule_lines import acting_rules, do_not_apply, not_accepted
from iqcar.say.sections import losses_by_owner, wasted_lines
from iqcar.say.sentences import query_statuses
from iqcar.say.straggler_sections import links_to_dict
from iqcar.show.json.described import (
    HEAD,
    METHOD,
    SCHEMA_VERSION,
    laid_out,
    plain,
    records,
    schema_text,
)
from iqcar.show.json.result_types import DiagnosisResult, ResultActingRule
from iqcar.show.json.stragglers import ResultWastedByQuery, stragglers_to_dict
from iqcar.show.json.topics import topics_to_dict
from iqcar.show.json.yarn import yarn_to_dict
from iqcar.tables import INPUTS, Tables, texts
from iqcar.version import __version__

if TYPE_CHECKING:
    from iqcar.comparison.check_rules import Check

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


_SUMMED = ("attempts", "again", "task_ms", "elapsed_ms")


def wasted_to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay out wasted work; elapsed times are estimates."""
    wasted = diagnosis.wasted
    frame = wasted.by_query.assign(cause=wasted.by_query["cause"].astype(str))
    by_cause = frame.groupby("cause")[list(_SUMMED)].sum().sort_values("task_ms", ascending=False)
    return {
        **{name: frame[name].sum().item() for name in _SUMMED},
        "share": min(wasted.share, 1.0),
        "evidence": str(Evidence.ESTIMATED),
        "by_cause": by_cause.reset_index().to_dict("records"),
        "by_query": [
            laid_out(
                ResultWastedByQuery,
                line,
                cause=str(line.cause),
                share_of_duration=line.share_of_run,
            )
            for line in wasted_lines(diagnosis)
        ],
    }


def driver_to_list(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Lay out what each query waited for in the driver: one entry per query."""
    driver = diagnosis.driver
    columns = driver.of_queries()
    found: list[dict[str, Any]] = [
        {**{name.removeprefix("driver_"): plain(ms) for name, ms in row.items()}, "work": []}
        for row in (
            dict(zip(columns, values, strict=True))
            for values in zip(*(column.tolist() for column in columns.values()), strict=True)
        )
    ]
    for one in driver.work.to_dict("records"):
        told = {str(name): plain(value) for name, value in one.items() if name != "query"}
        found[one["query"]]["work"].append(told)
    return found


_EVIDENCE = tuple(map(str, DemandEvidence))


def _unit(request: Request) -> str:
    return "cores" if request is Request.RUN_QUEUE else "bytes/s"


def _per_second(request: Request, value: float) -> float:
    return value if request is Request.RUN_QUEUE else value * 1000.0


def _capacities(diagnosis: Diagnosis) -> Iterator[dict[str, Any]]:
    names = texts(diagnosis.tables.hosts, "host")
    for row in diagnosis.blame.demand.capacities().itertuples():
        request = REQUESTS[row.request]
        yield {
            "host": names[row.host],
            "request": str(request),
            "capacity": plain(_per_second(request, row.capacity)),
            "unit": _unit(request),
            "identified": bool(row.identified),
            "contended": plain(row.contended),
            "relative_speed": plain(row.relative_speed),
            "evidence": _EVIDENCE[row.evidence],
            "tasks": int(row.tasks),
        }


def _own_rates(diagnosis: Diagnosis) -> Iterator[dict[str, Any]]:
    stages = diagnosis.tables.stages
    query, spark_id = stages["query"].to_numpy(), stages["stage_id"].to_numpy()
    ids = texts(diagnosis.tables.queries, "query_id")
    rates = diagnosis.blame.demand.own_rates()
    of_targets = np.isin(query[rates["stage"].to_numpy(np.int64)], diagnosis.targets)
    for row in rates[of_targets].itertuples():
        request = REQUESTS[row.request]
        yield {
            "query_id": ids[query[row.stage]],
            "stage_id": int(spark_id[row.stage]),
            "request": str(request),
            "own_rate": plain(_per_second(request, row.own_rate)),
            "low": plain(_per_second(request, row.low)),
            "high": plain(_per_second(request, row.high)),
            "unit": _unit(request),
            "identified": bool(row.identified),
            "evidence": _EVIDENCE[row.evidence],
            "tasks": int(row.tasks),
        }


MOST_CACHED = 10
"""Cached RDDs listed per query."""


def acting_rules_to_dict(tables: Tables) -> dict[str, Any]:
    """Lay out which rules acted when, and which files of rules were not accepted."""
    ids = tables.applications["application_id"].tolist()
    return {
        "acted": [
            laid_out(ResultActingRule, one, application_id=ids[one.app])
            for one in acting_rules(tables)
        ],
        "not_accepted": [
            {"application_id": ids[app], "time_ms": time, "sentence": sentence}
            for app, time, sentence in not_accepted(tables)
        ],
    }


AT_ONCE = 20
"""Values of a long list that are laid out and encoded together."""


def result_schema() -> str:
    """Return the JSON Schema of the result as text."""
    return schema_text(
        DiagnosisResult, title="iqcar diagnosis", identity="https://iqcar.org/result.schema.json"
    )


def to_json(diagnosis: Diagnosis) -> bytes:
    """Encode a diagnosis; numbers nobody knows become null."""
    return b"".join(json_chunks(diagnosis))


def json_chunks(diagnosis: Diagnosis) -> Iterator[bytes]:
    """Encode a diagnosis piece by piece, a query at a time: never the whole in memory."""
    return _chunks(_fields(diagnosis))


def queries_to_json(diagnosis: Diagnosis) -> bytes:
    """Encode only inputs, queries and doubts: what ``iqcar queries`` shows."""
    kept = ("schema_version", "iqcar_version", "inputs", "queries", "doubts")
    fields = _fields(diagnosis)
    return b"".join(_chunks({key: fields[key] for key in kept}))


def check_schema() -> str:
    """Return the JSON Schema of what ``iqcar rules check`` writes, as text."""
    return schema_text(
        RulesCheck, title="iqcar rules check", identity="https://iqcar.org/check.schema.json"
    )


def check_to_json(check: Check) -> bytes:
    """Encode what two runs say about rules."""
    return _encode({**HEAD, **check.to_dict()})


def _head(tables: Tables) -> dict[str, Any]:
    """Say which version wrote it, of which inputs."""
    return {**HEAD, "inputs": _inputs(tables.inputs)}


def stragglers_to_json(tables: Tables, found: Stragglers) -> bytes:
    """Encode the stragglers of event logs: what ``iqcar stragglers`` finds."""
    return _encode({**_head(tables), "stragglers": [stragglers_to_dict(found, most=None)]})


def topics_to_json(tables: Tables, found: Sequence[Topics], names: str = "") -> bytes:
    """Encode the topics of event logs: what ``iqcar topics`` finds."""
    return _encode({**_head(tables), "topics": [topics_to_dict(one, names) for one in found]})


def to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay a diagnosis out as the result's JSON object."""
    return {name: _with_lists(make()) for name, make in _fields(diagnosis).items()}


def _with_lists(value: Any) -> Any:
    """Replace the iterators that :func:`_object` would write by the lists that they stand for."""
    if isinstance(value, dict):
        return {name: _with_lists(field) for name, field in value.items()}
    return list(value) if isinstance(value, Iterator) else value


def _fields(diagnosis: Diagnosis) -> dict[str, Callable[[], Any]]:
    """Functions that make the fields of the result, in order; an iterator stands for a list."""
    graph, settings, together = diagnosis.graph, diagnosis.settings, diagnosis.rules_together
    topics = diagnosis.topics
    return {
        "schema_version": lambda: SCHEMA_VERSION,
        "iqcar_version": lambda: __version__,
        "settings": lambda: {
            "query_by": str(settings.query_by),
            **METHOD,
            "critical_path": settings.critical_path,
            "top": settings.top,
            "by": settings.by,
        },
        "inputs": lambda: _inputs(diagnosis.tables.inputs),
        "findings": lambda: [finding_to_dict(diagnosis, one) for one in find_findings(diagnosis)],
        "queries": lambda: _queries(diagnosis),
        "graph": lambda: _graph(diagnosis),
        "hot_resources": lambda: records(graph.hot_resources()),
        "slow_nodes": lambda: records(graph.slow_nodes()),
        "demand": lambda: {
            "capacities": _capacities(diagnosis),
            "own_rates": _own_rates(diagnosis),
        },
        "aggressive_queries": lambda: _aggressive(diagnosis),
        "lost_by_owner": lambda: iter(
            _each_record(losses_by_owner(diagnosis, settings.by)) if settings.by else ()
        ),
        "paths": lambda: _paths(diagnosis),
        "wasted_work": lambda: wasted_to_dict(diagnosis),
        "yarn": lambda: yarn_to_dict(diagnosis.yarn),
        "stragglers": lambda: stragglers_to_dict(diagnosis.stragglers),
        "topics": lambda: None if topics is None else topics_to_dict(topics),
        "rules": lambda: [rule.to_dict() for rule in diagnosis.rules],
        "rules_together": lambda: together.to_dict() if together is not None else None,
        "rejected_rules": lambda: [one.to_dict() for one in diagnosis.rejected_rules],
        "earlier_round": lambda: list(diagnosis.earlier.notes),
        "acting_rules": lambda: acting_rules_to_dict(diagnosis.tables),
        "do_not_apply": lambda: do_not_apply(diagnosis),
        "doubts": lambda: list(diagnosis.doubts),
    }


def _chunks(fields: Mapping[str, Callable[[], Any]]) -> Iterator[bytes]:
    """Write an object as :func:`_encode` does, each field when its turn comes."""
    yield from _object(((name, make()) for name, make in fields.items()), 0)
    yield b"\n"


def _object(fields: Iterable[tuple[str, Any]], depth: int) -> Iterator[bytes]:
    """Write an object of at least one field; values may be iterators, which become lists."""
    line = b"\n" + b" " * depth
    start = b"{"
    for name, value in fields:
        yield start + line + b" " + json_bytes(name) + b": "
        start = b","
        if isinstance(value, Iterator):
            yield from _list(value, depth + 1)
        elif isinstance(value, dict) and any(isinstance(v, Iterator) for v in value.values()):
            yield from _object(value.items(), depth + 1)
        else:
            yield _indented(value, depth + 1)
    yield line + b"}"


def _list(values: Iterator[Any], depth: int) -> Iterator[bytes]:
    """Write a list, some values at a time."""
    start = b"["
    while some := list(islice(values, AT_ONCE)):
        # "[", lines, and a line with "]".
        yield start + _indented(some, depth)[1:].rpartition(b"\n")[0]
        start = b","
    yield b"[]" if start == b"[" else b"\n" + b" " * depth + b"]"


def _indented(value: Any, depth: int) -> bytes:
    text = json_bytes(value, indent=1)
    # Line breaks inside strings are escaped, so every one here is between values.
    return text.replace(b"\n", b"\n" + b" " * depth)


def _encode(result: dict[str, Any]) -> bytes:
    return json_bytes(result, indent=1) + b"\n"


def _each_record(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows as :func:`records`, made when their turn comes."""
    for start in range(0, len(frame), AT_ONCE):
        yield from records(frame.iloc[start : start + AT_ONCE])


def _inputs(inputs: pd.DataFrame) -> list[dict[str, Any]]:
    names = [name for name in INPUTS.column_names() if name != "app"]
    return records(inputs[names])


def _queries(diagnosis: Diagnosis) -> Iterator[dict[str, Any]]:
    queries = diagnosis.tables.queries
    application_ids = diagnosis.tables.applications["application_id"].tolist()
    lost = diagnosis.lost_ms().tolist()
    to_others = diagnosis.lost_to_others_ms().tolist()
    low, high = (of.tolist() for of in diagnosis.others_range[:2])
    waits = _each_record(diagnosis.query_waits)
    wasted = diagnosis.wasted.of_queries(len(queries))
    targets = set(diagnosis.targets)
    driver, status = driver_to_list(diagnosis), query_statuses(diagnosis.tables)
    for row, query in enumerate(_each_record(queries.drop(columns="family"))):
        app = query.pop("app")
        duration = query["duration_ms"] or 0.0
        # Rounding of summed times can lift the loss over the duration by a hair.
        lost_ms = min(lost[row], duration) if duration else lost[row]
        yield {
            "query_id": query.pop("query_id"),
            "application_id": application_ids[app],
            **query,
            "status": str(status[row]),
            "target": row in targets,
            "waits": {
                w["resource"]: {
                    "ms": w["wait_ms"],
                    "evidence": w["evidence"],
                    "missing_share": w["missing_share"],
                }
                for w in islice(waits, len(Resource))
            },
            "lost_ms": lost_ms,
            "lost_to_others_ms": min(to_others[row], lost_ms),
            "lost_low_ms": plain(min(low[row], to_others[row], lost_ms)),
            "lost_high_ms": plain(high[row]),
            "driver": driver[row],
            "share_of_duration": lost_ms / duration if duration else 0.0,
            "slowdown": duration / (duration - lost_ms) - 1 if duration > lost_ms else None,
            **{name: values[row].item() for name, values in wasted.items()},
            "cached": [one._asdict() for one in diagnosis.cached.get(row, [])[:MOST_CACHED]],
            "blame": [
                {name: plain(value) for name, value in one.items()}
                for one in diagnosis.graph.blame_rows(row)
            ],
            "stragglers": links_to_dict(diagnosis.stragglers, diagnosis.topics, row)
            if row in targets
            else None,
        }


_NUMBERS = ("saves_ms", "low_ms", "high_ms", "share", "frees")


def finding_to_dict(diagnosis: Diagnosis, one: Finding) -> dict[str, Any]:
    """Lay a finding out as a JSON object."""
    ids = diagnosis.tables.queries["query_id"]
    return {
        "kind": str(one.kind),
        "subject": one.subject,
        "query_ids": [ids.iloc[row] for row in one.queries],
        **{name: getattr(one, name) for name in _NUMBERS},
        **{
            name: getattr(one, name)
            for name in ("evidence", "where", "sentence", "action", "section")
        },
        "settings": [{"name": n, "value": value, "why": why} for n, value, why in one.settings],
    }


def _aggressive(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    ids = diagnosis.tables.queries["query_id"].tolist()
    rows = records(diagnosis.graph.aggressive_queries(diagnosis.settings.top))
    for row in rows:
        row.pop("query")
        worst = row.pop("worst_victim")
        row["worst_victim_query_id"] = ids[worst] if worst >= 0 else None
    return rows


def _paths(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    if not diagnosis.targets:
        return []
    paths = diagnosis.graph.paths(diagnosis.settings.top, list(diagnosis.targets))
    return records(paths.drop(columns="positions"))


def _graph(diagnosis: Diagnosis) -> dict[str, Any]:
    exported = diagnosis.graph.export(list(diagnosis.targets))
    return {
        "impact": METHOD["impact"],
        "folded": exported.folded,
        "nodes": ({key: plain(value) for key, value in node.items()} for node in exported.nodes),
        "edges": iter(exported.edges),
    }
