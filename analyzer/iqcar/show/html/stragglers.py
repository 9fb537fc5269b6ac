"""Stragglers and topics: which tasks were slow and why, and which causes recur."""

from __future__ import annotations

from typing import Any

from iqcar.base import limits
from iqcar.base.units import printable
from iqcar.causes.stragglers.straggler_result import UNEXPLAINED, by_cause
from iqcar.diagnosis import Diagnosis
from iqcar.rules.vocabulary.topics import straggler_cause
from iqcar.say.blamed import QueryNames
from iqcar.say.straggler_sections import (
    CAUSE_WIDTH,
    GROUPS,
    causes_section,
    group_section,
    headline,
    names_of,
    straggler_lines,
    topic_stages_section,
    topics_section,
)


def stragglers_part(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay out stragglers: counts by cause, stage, query and host, and the worst with evidence."""
    found, names = diagnosis.stragglers, _query_names(diagnosis)
    sentence = headline(found, found.stragglers, found.tasks)
    causes = [one for one in by_cause(found)["cause"].tolist() if one != UNEXPLAINED]
    if causes:
        name = straggler_cause(causes[0]).name
        sentence += f". Most frequent cause: {name}"
    groups = (group_section(found, group, names) for group in GROUPS)
    worst = found.stragglers.head(limits.MOST_STRAGGLERS)
    return {
        "sentence": printable(sentence[0].upper() + sentence[1:]).rstrip(".") + ".",
        "count": len(found.stragglers),
        "causes": causes_section(found),
        "groups": [one.first(limits.MOST_GROUPS, "more") for one in groups if one.rows],
        "worst": straggler_lines(found, worst, names),
        "left_out": max(0, len(found.stragglers) - len(worst)),
    }


def topics_part(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """Lay out topics with keywords and the mixtures of stages; None without topics."""
    found = diagnosis.topics
    if found is None:
        return None
    named, names = names_of(found), _query_names(diagnosis)
    return {
        "topics": topics_section(found, named),
        "stages": topic_stages_section(found, named, names, limits.MOST_TOPIC_STAGES),
    }


def _query_names(diagnosis: Diagnosis) -> dict[int, str]:
    """What to call each query, by row."""
    names = QueryNames(diagnosis.tables.queries)
    return {row: names.called(row, CAUSE_WIDTH) for row in range(len(names.ids))}
