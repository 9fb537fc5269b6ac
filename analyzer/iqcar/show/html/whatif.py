"""What-if questions that the page answers: computed beforehand, so that it needs no server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment

from iqcar.base import limits
from iqcar.base.units import duration, printable, short
from iqcar.diagnosis import Diagnosis, WhatIfs
from iqcar.errors import IqcarError, UsageError
from iqcar.replay.whatif.edit_cluster import slots_at_most
from iqcar.replay.whatif.plan_capacity import Plan, plan_of_answers
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.ranges import ANSWERED
from iqcar.replay.whatif.removal_blame import RemovalBlame
from iqcar.replay.whatif.usual_questions import MOST_TASKS, Usual, usual_questions
from iqcar.replay.whatif.what_if import WhatIf, self_check
from iqcar.say.section import Section, columns, range_words
from iqcar.say.what_if_sentences import (
    capacity_words,
    check_sentence,
    plan_section,
    plan_sentence,
    plan_words,
    removal_section,
    total_lines,
    what_if_section,
)
from iqcar.show.html.files import escaping_environment
from iqcar.show.pictures.question_bars import (
    capacity_plan,
    device_use,
    predicted_durations,
    waits_before_after,
)
from iqcar.tables import texts

KINDS = {
    "remove": "without a query",
    "slots": "number of slots",
    "disk": "disks",
    "network": "network",
    "cpu": "processors",
    "other": "something else",
}
"""Kinds of change as the page calls them."""
LEAST_SLOTS = 3
"""Numbers of slots that make a curve."""
LEAST_GAIN_PERCENT = 5.0
"""Change of the time of all queries from which on an answer is said first."""
SLIDERS = ("slots", "disk", "network", "cpu")
"""Kinds whose steps have an order."""


def what_if_part(diagnosis: Diagnosis) -> dict[str, Any]:
    """Answer the usual questions, and lay the answers out.

    Returns sentence; kinds: what can be chosen, each with its steps; answers: one per question;
    without answers both are empty and the sentence says why.
    """
    tasks = len(diagnosis.tables.tasks)
    if tasks > MOST_TASKS:
        said = f"With {tasks:,} tasks nothing is predicted here: ask iqcar whatif."
        return _nothing(said)
    try:
        asked = WhatIfs(diagnosis)
        model = asked.model
    except IqcarError as error:
        return _nothing(f"Nothing can be predicted: {error.what}.")
    check = check_sentence(self_check(model))
    if not model.median_error <= ANSWERED:
        return _nothing(f"Nothing is predicted: {check}, so nothing that it says can be trusted.")
    chosen, left_out = usual_questions(model, most_blamed(diagnosis))
    found: list[tuple[Usual, WhatIf]] = []
    for usual in chosen:
        try:
            answer = asked.answer(usual.question)
        except UsageError:  # such as taking away all that ran
            continue
        if answer.total["change_percent"] is not None:
            found.append((usual, answer))
    if not found:
        return _nothing("No question is answered here: nothing that could be changed is known.")
    said = (
        "What each query would have taken if one thing had been different, by replays of this run."
    )
    if left_out:
        said += f" {left_out} more question{'s' * (left_out != 1)} would have taken too long here."
    best = min(found, key=lambda one: one[1].total["change_percent"])
    return {
        "sentence": said,
        "first": _first(*best),
        "best": found.index(best),
        "check": check,
        "plan": _plan(asked, found),
        "kinds": _kinds([usual for usual, _ in found]),
        "answers": [
            {"label": _label(usual), "html": answer_html(answer)} for usual, answer in found
        ],
        "table": _answers(found),
    }


def _first(usual: Usual, answer: WhatIf) -> str:
    """Say what the change that helps most comes to; empty where it helps little."""
    total = answer.total
    if total["change_percent"] > -LEAST_GAIN_PERCENT:
        return ""
    label = _label(usual)
    return (
        f"{label[0].upper()}{label[1:]}: {duration(total['recorded_ms'])} → "
        f"{duration(total['predicted_ms'])} "
        f"({range_words(total['low_ms'], total['high_ms'])}) for all {total['queries']} queries."
    )


def _answers(found: Sequence[tuple[Usual, WhatIf]]) -> Section:
    """Show what each question comes to for all queries."""
    totals = [(_label(usual), answer.total) for usual, answer in found]
    return Section(
        "whatif",
        "All queries together",
        columns=columns(
            "change:name | recorded:time | predicted:time | range (80 %) | change:relative",
            "queries slower:count",
        ),
        rows=tuple(
            (
                label,
                total["recorded_ms"],
                total["predicted_ms"],
                range_words(total["low_ms"], total["high_ms"]),
                total["change_percent"],
                total["slower"],
            )
            for label, total in totals
        ),
        caption="All queries together, one change at a time",
    )


def answer_html(answer: WhatIf, level: int = 3) -> str:
    """Lay an answer out as HTML: totals, picture, queries, waits, devices, what it rests on."""
    return (
        _templates()
        .get_template("whatif_answer.html.j2")
        .render(
            level=level,
            sentence=printable(short(answer.question.sentence(), 2 * limits.NAME_CHARACTERS)),
            check=check_sentence(answer.self_check),
            lines=[printable(line) for line in total_lines(answer)]
            if answer.total["change_percent"] is not None
            else [],
            capacities=capacity_words(answer),
            queries=what_if_section(answer, limits.MOST_PREDICTED),
            refused=answer.refused,
            assumptions=answer.assumptions,
            durations=predicted_durations(answer, limits.MOST_PREDICTED_DRAWN),
            waits=waits_before_after(answer),
            devices=device_use(answer),
        )
    )


def plan_html(plan: Plan, level: int = 3) -> str:
    """Lay a capacity plan out as HTML: picture, table, what it rests on."""
    return (
        _templates()
        .get_template("whatif_plan.html.j2")
        .render(
            level=level,
            plan=plan,
            sentence=plan_sentence(plan),
            check=check_sentence(plan.self_check),
            picture=capacity_plan(plan),
            section=plan_section(plan),
        )
    )


def removal_blame_html(blame: RemovalBlame, level: int = 3) -> str:
    """Lay blame by removal out as HTML: who made a query wait, by replay and by attribution."""
    template = _templates().get_template("whatif_blame.html.j2")
    return template.render(level=level, section=removal_section(blame), doubts=blame.doubts)


def _nothing(sentence: str) -> dict[str, Any]:
    empty: dict[str, Any] = {"first": "", "check": "", "plan": None, "kinds": [], "answers": []}
    return {"sentence": sentence, **empty}


def _plan(asked: WhatIfs, found: Sequence[tuple[Usual, WhatIf]]) -> dict[str, str] | None:
    """A picture of what numbers of slots would take; None where fewer than three are known."""
    answers = {
        usual.question.slots_in_all: said
        for usual, said in found
        if usual.question.slots_in_all is not None
    }
    model = asked.model
    if len(answers) < LEAST_SLOTS - 1:
        return None
    answers[slots_at_most(model.scenario.slots)] = asked.answer(Question())
    plan = plan_of_answers(model, "slots", answers)
    return {"picture": str(capacity_plan(plan)), "sentence": plan_words(plan)}


def most_blamed(diagnosis: Diagnosis) -> Sequence[str]:
    """Names of the queries that others lost most to."""
    hurts = diagnosis.graph.who_hurts_whom()
    hurts = hurts[(hurts["source_query"] >= 0) & (hurts["source_query"] != hurts["target_query"])]
    queries = diagnosis.tables.queries
    names, ids = texts(queries, "name"), texts(queries, "query_id")
    named = [names[row] or ids[row] for row in hurts["source_query"].tolist()]
    lost = hurts.groupby(named)["lost_ms"].sum().sort_values(ascending=False, kind="stable")
    return [str(name) for name, ms in lost.items() if ms > 0]


def _label(usual: Usual) -> str:
    if usual.kind == "remove":
        return f"without {printable(short(usual.label, limits.NAME_CHARACTERS))}"
    return usual.label if usual.kind in ("slots", "other") else f"{KINDS[usual.kind]} {usual.label}"


def _kinds(chosen: Sequence[Usual]) -> list[dict[str, Any]]:
    """What can be chosen; sliders have a step for the run as it was, which has no answer."""
    kinds = []
    for kind in dict.fromkeys(usual.kind for usual in chosen):
        steps: list[tuple[float, str, int | None]] = [
            (usual.step, printable(short(usual.label, limits.NAME_CHARACTERS)), at)
            for at, usual in enumerate(chosen)
            if usual.kind == kind
        ]
        slider = kind in SLIDERS
        if slider:
            steps = sorted([*steps, (1.0, "as it was", None)])
        kinds.append(
            {
                "key": kind,
                "name": KINDS[kind],
                "slider": slider,
                "steps": [{"label": label, "answer": at} for _, label, at in steps],
                "first": next(at for at, (_, _, answer) in enumerate(steps) if answer is not None),
            }
        )
    return kinds


@cache
def _templates() -> Environment:
    return escaping_environment("iqcar.show.html")
