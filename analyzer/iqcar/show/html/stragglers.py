"""Stragglers and topics: which tasks were slow and why, and which causes recur."""

from __future__ import annotations

from typing import Any

from iqcar.base import limits
from iqcar.base.units import percent, printable, short
from iqcar.diagnosis import Diagnosis
from iqcar.rules.vocabulary.topics import straggler_cause, what_helps
from iqcar.say.blamed import blamed_name
from iqcar.say.query_names import QueryNames
from iqcar.show.json.stragglers import stragglers_to_dict
from iqcar.show.json.topics import topics_to_dict
from iqcar.show.terminal.straggler_section import headline

CAUSE_WIDTH = 40


def stragglers_section(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay out stragglers: counts by cause, stage, query and host, and the worst with evidence."""
    found = diagnosis.stragglers
    whole = stragglers_to_dict(found, most=limits.MOST_STRAGGLERS)
    names = _query_names(diagnosis)
    sentence = headline(found, found.stragglers, found.tasks)
    top = next((row for row in whole["by_cause"] if row["cause"]), None)
    if top is not None:
        known = straggler_cause(top["cause"])
        sentence += f". Most frequent cause: {known.name}. {what_helps(top['cause'], found)}"
    groups = {
        "stage": [(one, printable(one["stage"])) for one in whole["by_stage"]],
        "query": [(one, _query_name(names, one["query"])) for one in whole["by_query"]],
        "host": [(one, printable(one["host"] or "unknown host")) for one in whole["by_host"]],
    }
    return {
        "sentence": printable(sentence[0].upper() + sentence[1:]).rstrip(".") + ".",
        "count": whole["count"],
        "by_cause": [
            {
                **row,
                "name": printable(row["name"]),
                "sentence": (
                    straggler_cause(row["cause"]).sentence
                    if row["cause"]
                    else "Nothing recorded sets them apart."
                ),
            }
            for row in whole["by_cause"]
        ],
        "groups": {
            key: {
                "rows": [_group(one, name) for one, name in rows[: limits.MOST_GROUPS]],
                "left_out": max(0, len(rows) - limits.MOST_GROUPS),
            }
            for key, rows in groups.items()
        },
        "worst": [_straggler(one, names) for one in whole["worst"]],
        "left_out": max(0, whole["count"] - limits.MOST_STRAGGLERS),
        "advice": whole["advice"],
        "doubts": [printable(doubt) for doubt in whole["doubts"]],
    }


def topics_section(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """Lay out topics with keywords and the mixtures of stages; None without topics."""
    if diagnosis.topics is None:
        return None
    whole = topics_to_dict(diagnosis.topics)
    topics = whole["topics"]
    names = _query_names(diagnosis)
    stages = sorted(whole["stages"], key=lambda one: -one["delay_ms"])
    return {
        "sentence": _topics_sentence(whole),
        "topics": [
            {
                **one,
                "number": one["topic"] + 1,
                "name": short(one["name"], 80),
                "sentence": printable(one["sentence"]),
                "keywords": [
                    (short(word, CAUSE_WIDTH), weight) for word, weight in one["keywords"].items()
                ],
            }
            for one in topics
        ],
        "stages": [
            {
                "stage": printable(one["stage"]),
                "query": _query_name(names, one["query_id"]),
                "stragglers": one["stragglers"],
                "tasks": one["tasks"],
                "delay_ms": one["delay_ms"],
                "mixture": [
                    (part["topic"] + 1, short(topics[part["topic"]]["name"], 60), part["share"])
                    for part in one["mixture"]
                ],
                "blamed": _blamed(one["blamed"]),
            }
            for one in stages[: limits.MOST_TOPIC_STAGES]
        ],
        "left_out": max(0, len(stages) - limits.MOST_TOPIC_STAGES),
        "agree": whole["evidence"]["agree"],
        "checked": whole["evidence"]["keywords_checked"],
        "advice": whole["advice"],
        "doubts": [printable(doubt) for doubt in whole["doubts"]],
    }


def _topics_sentence(whole: dict[str, Any]) -> str:
    if whole["reason"]:
        return printable(str(whole["reason"]))
    first = whole["topics"][0]
    text = (
        f"{whole['count']} cause{'s' if whole['count'] > 1 else ''} of stragglers recur in "
        f"{whole['jobs']:,} stages; most often {first['name']}, in {percent(first['coverage'])}."
    )
    if whole["count"] == 1:
        text = (
            f"One cause of stragglers recurs in {percent(first['coverage'])} of {whole['jobs']:,} "
            f"stage{'s' if whole['jobs'] > 1 else ''}: {first['name']}."
        )
    advice = next((one["advice"] for one in whole["advice"] if one["name"] == first["name"]), "")
    return printable(f"{text} {advice}".strip())


def _group(one: dict[str, Any], name: str) -> dict[str, Any]:
    causes = [
        (short(straggler_cause(key).name, CAUSE_WIDTH), count)
        for key, count in one["causes"].items()
    ]
    return {
        "name": short(name, limits.NAME_CHARACTERS),
        "tasks": one["tasks"],
        "stragglers": one["stragglers"],
        "delay_ms": one["delay_ms"],
        "causes": causes,
    }


def _straggler(one: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    causes = []
    for cause in one["causes"]:
        name = printable(straggler_cause(cause["cause"]).name)
        sentence = printable(cause["sentence"])
        causes.append(
            {
                "name": name,
                "sentence": sentence.removeprefix(f"{name} "),
                "evidence": cause["evidence"],
                "blamed": _blamed(cause["blamed"]),
            }
        )
    return {
        "task": short(one["task"], CAUSE_WIDTH),
        "stage": short(one["stage"], limits.NAME_CHARACTERS),
        "query": _query_name(names, one["query_id"]),
        "host": printable(one["host"] or "unknown"),
        "duration_ms": one["duration_ms"],
        "median_ms": one["median_ms"],
        "delay_ms": one["delay_ms"],
        "causes": causes,
    }


def _blamed(rows: list[dict[str, Any]]) -> list[tuple[str, float]]:
    return [
        (blamed_name(row["kind"], row["name"] or "", CAUSE_WIDTH), row["share"])
        for row in rows[: limits.MOST_BLAMED_FOR_CAUSE]
    ]


def _query_names(diagnosis: Diagnosis) -> dict[str, str]:
    """What to call each query, by id."""
    names = QueryNames(diagnosis.tables.queries)
    called = (names.called(row, CAUSE_WIDTH) for row in range(len(names.ids)))
    return dict(zip(names.ids, called, strict=True))


def _query_name(names: dict[str, str], query_id: str | None) -> str:
    return names.get(query_id or "", "")
