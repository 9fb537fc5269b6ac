"""Keeps the rules of an earlier round while new ones are proposed from a run that they acted in.

A rule that works removes its own evidence: a run recorded under rules shows the cluster that they
made. Proposed from it alone, rules would swing: the hog that is held back looks like a victim, and
the victim that no longer waits looks like it needs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from iqcar.replay.loop.scheduling import is_fair, ran_in_pools
from iqcar.rules.compile_pools import RulesFile, compile_rules
from iqcar.rules.propose_rules import Need, needs_of
from iqcar.rules.recorded_setup import Recorded
from iqcar.rules.rule import PREFIX, Rule, opposite, pools_of, scheduler_rules, stands_for
from iqcar.tables import Tables, texts


class PreviousRules(msgspec.Struct, frozen=True):
    """What becomes of the rules of an earlier round.

    kept: rules that stay, as they were.
    notes: what became of each earlier rule and why, and which proposals were dropped for it;
        sentences.
    recorded: what the earlier rules were compiled for; None without any.
    """

    kept: tuple[Rule, ...] = ()
    notes: tuple[str, ...] = ()
    recorded: Recorded | None = None


def review_previous(previous: RulesFile, tables: Tables) -> PreviousRules:
    """Decide which rules of an earlier round stay.

    Returns: A rule stays that acted and is still needed, or of which the run cannot tell: its query
    or its victims did not run. A rule that did not act has changed nothing: what the run shows
    counts, and so it goes. Rules that made no pool are passed over.

    previous: The rules that the run was recorded with.
    tables: The run.
    """
    rules = scheduler_rules(previous.rules)
    known = previous.recorded
    plan = previous.plan or compile_rules(rules, known.slots, known.running, known.pools)
    pools = pools_of(rules, plan)
    times = tables.tasks[["launch_ms", "finish_ms"]].to_numpy(np.float64)
    start, end = (float(np.nanmin(times)), float(np.nanmax(times))) if len(times) else (0.0, 0.0)
    kept, notes = [], []
    for rule, need in zip(rules, needs_of(rules, tables, start, end), strict=True):
        pool = pools.get(rule.id, "")
        what = f"{rule.id} of the round before ({rule.query_name})"
        if not pool:
            continue  # it did nothing
        why_gone = _why_gone(rule, pool, need, tables)
        if why_gone:
            notes.append(f"{what} is dropped: {why_gone}.")
            continue
        kept.append(rule)
        how = (
            f"it is still needed: {need.why}" if need.told else f"this run cannot tell: {need.why}"
        )
        notes.append(f"{what} stays as it was: {how}.")
    return PreviousRules(tuple(kept), tuple(notes), known)


def add_to(
    earlier: PreviousRules, proposed: Sequence[Rule]
) -> tuple[tuple[Rule, ...], PreviousRules]:
    """Drop proposals that the kept rules stand for or contradict.

    Returns: The others, with ids and orders after those of the kept rules. Returns: With a note for
    each that was dropped because it would undo a rule.
    """
    notes, found = list(earlier.notes), []
    for rule in proposed:
        if rule.is_advice:
            found.append(rule)
            continue
        undone = next((one for one in earlier.kept if opposite(one, rule)), None)
        if undone is not None:
            notes.append(
                f"A {rule.rule_type} rule for {rule.query_name} was proposed and is left out: it "
                f"would undo {undone.id}, whose work is what it is proposed for."
            )
        elif stands_for(rule, earlier.kept) is None:
            found.append(rule)
    return _numbered(earlier.kept, found), replace(earlier, notes=tuple(dict.fromkeys(notes)))


def rules_that_acted(tables: Tables) -> tuple[str, ...]:
    """Return the pools of rules that tasks ran in, by name; none where no rules acted."""
    fair = np.array([is_fair(tables, app) for app in range(len(tables.applications))], bool)
    stage = np.flatnonzero(np.append(fair, False)[tables.stages["app"].to_numpy(np.int64)])
    return tuple(sorted({pool for pool in ran_in_pools(tables, stage) if pool.startswith(PREFIX)}))


def rules_doubt(tables: Tables) -> tuple[str, ...]:
    """Doubt rules that are proposed from a run in which others acted."""
    pools = rules_that_acted(tables)
    if not pools:
        return ()
    some = ", ".join(pools[:3]) + (" and others" if len(pools) > 3 else "")
    return (
        f"rules acted in this run (tasks ran in {some}): what they prevented is not in it, so the "
        "rules proposed from it alone would undo them; give their file with --previous",
    )


def _why_gone(rule: Rule, pool: str, need: Need, tables: Tables) -> str:
    """Say why a rule does not stay; empty if it does."""
    ran = _ran_in(rule, tables)
    if ran and pool not in ran:
        return f"it did not act, its query ran in {', '.join(sorted(ran))}"
    if need.told and not need.needed:
        return f"nothing needs it any more, {need.why}"
    return ""


def _ran_in(rule: Rule, tables: Tables) -> set[str]:
    """Pools that the stages of a rule's query ran in; under FIFO none acts."""
    of_query = np.array([one == rule.fingerprint for one in texts(tables.queries, "fingerprint")])
    query = tables.stages["query"].to_numpy(np.int64)
    stage = np.flatnonzero(np.append(of_query, False)[query] & (query >= 0))
    app = tables.stages["app"].to_numpy(np.int64)[stage].tolist()
    pools = zip(ran_in_pools(tables, stage), app, strict=True)
    return {pool if is_fair(tables, one) else "no pool, under FIFO" for pool, one in pools}


def _numbered(kept: Sequence[Rule], found: Sequence[Rule]) -> tuple[Rule, ...]:
    """Give new rules ids and orders that no kept rule has."""
    last: dict[str, int] = {}
    for rule in kept:
        last[rule.rule_type] = max(last.get(rule.rule_type, 0), rule.rule_order)
    taken, numbered = {rule.id for rule in kept}, []
    for rule in found:
        if rule.is_advice or not kept:
            numbered.append(rule)
            continue
        order = last.get(rule.rule_type, 0) + 1
        while f"{rule.rule_type}-{order}" in taken:
            order += 1
        last[rule.rule_type] = order
        numbered.append(replace(rule, id=f"{rule.rule_type}-{order}", rule_order=order))
    return tuple(numbered)
