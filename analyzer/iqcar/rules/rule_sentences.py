"""Writes rules as sentences, and the guide that says how to apply them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from string import Template

from iqcar.base.units import percent
from iqcar.rules.rule import PREFIX, Pool, PoolPlan, Rule, scheduler_rules
from iqcar.rules.vocabulary.data_files import HOW_TO, read_data
from iqcar.version import __version__

NAME_IN_SENTENCE = 60
"""Characters of a query's name in a sentence: two names and the numbers fit in two lines."""


def in_a_sentence(name: str) -> str:
    """Name on one line, shortened: a query's name can be a whole program."""
    line = " ".join(name.split())
    return line if len(line) <= NAME_IN_SENTENCE else line[: NAME_IN_SENTENCE - 1] + "…"


def called(rule: Rule) -> str:
    """The rule and its query: ``AGG-1 (etl)``."""
    name = in_a_sentence(rule.query_name)
    return f"{rule.id} ({name})" if name else rule.id


def why_no_pool(rule: Rule) -> str:
    """Say that pools will not help against what a rule is about, and what will."""
    what = "weights" if rule.is_in_vain else "pools"
    return (
        f"{called(rule)} makes no pool: {what} share out slots, and it is about {rule.resource}. "
        f"{rule.advice}"
    ).rstrip()


def why_rejected(rule: Rule) -> str:
    """Say that a rule makes no pool because it is predicted to harm."""
    return f"{called(rule)} is rejected. {_expected(rule)} With --all-rules it makes a pool."


def why_not(rule: Rule) -> str:
    """Warn of a rule that makes a pool though it is predicted to harm."""
    return f"Do not apply {called(rule)}. {_expected(rule)}"


def _expected(rule: Rule) -> str:
    return f"Expected: {(rule.expected or {}).get('sentence', 'more harm than good')}."


def what_helps_besides(rules: Iterable[Rule]) -> list[str]:
    """Say what would help besides pools, each once."""
    return list(dict.fromkeys(rule.advice for rule in rules if rule.helps_pools and rule.advice))


def why_first(first: Rule, second: Rule) -> str:
    """Say which of two rules for one query is applied: one pool cannot have two weights."""
    if first.rule_type is not second.rule_type:
        why = f"{first.rule_type} rules come before {second.rule_type} rules"
    elif first.rule_order != second.rule_order:
        why = f"its rule-order {first.rule_order} comes before {second.rule_order}"
    else:
        why = "of equal order the first id counts"
    as_what = ""
    if first.query_type is not second.query_type:
        as_what = f" The query counts as a {first.query_type}, not as a {second.query_type}."
    return (
        f"{called(first)} is applied and {second.id} for the same query is not, because "
        f"{why}.{as_what}"
    )


def what_it_gets(rule: Rule, pool: Pool, weights: int, slots: int | None) -> str:
    """Say what pool a rule makes, and what its query gets there."""
    text = (
        f"{called(rule)} gets pool {pool.name}, weight {pool.weight}: "
        f"{percent(pool.weight / weights)} of the slots while every pool wants some"
    )
    if pool.min_share:
        text += f", and it is offered slots first until it has {pool.min_share} of {slots}"
    return f"{text}."


def cap_words(pool: Pool) -> str:
    """Say in a table what a pool is held to; empty where it has no cap."""
    tasks = [] if pool.cap is None else [f"{pool.cap} tasks"]
    share = [] if pool.cap_share is None else [f"{percent(pool.cap_share)} of the slots"]
    strict = [] if not pool.strict else ["strict"]
    return ", ".join([*tasks, *share, *strict]) if pool.is_capped else ""


def what_it_is_held_to(rule: Rule, pool: Pool, slots: int | None) -> str:
    """Say how many tasks a capped pool runs at once at most, and that the plugin sees to it."""
    share = pool.cap_share or 1.0
    count = "" if slots is None else f", {max(int(share * slots), 1)} of {slots}"
    idle = (
        "slots that nobody else wants stand idle rather than go beyond"
        if pool.strict
        else "it goes beyond only in slots that nobody else wants"
    )
    return (
        f"{called(rule)} caps pool {pool.name}: its tasks run in {percent(share)} of the slots at "
        f"most{count}; {idle}. A cap acts where the iqcar plugin applies the rules; "
        "fairscheduler.xml has no place for it."
    )


def what_the_rest_gets(own: Sequence[Pool], running: int, made: int) -> str:
    """Say what is left for queries without a rule, and how that was counted."""
    names = " and ".join(f"{pool.name} (weight {pool.weight})" for pool in own[:3])
    more = f" and {len(own) - 3} more" if len(own) > 3 else ""
    rest = max(running - made, 1)
    return (
        f"Queries without a rule stay in {names}{more}, which counts as {rest} "
        f"{'query' if rest == 1 else 'queries'}: {running} ran at once at most, and {made} of "
        "them can be in a pool of a rule."
    )


def under_earlier_rules(pools: Sequence[Pool]) -> list[str]:
    """Say that the recorded run was one with rules, where it was."""
    earlier = [pool.name for pool in pools if pool.name.startswith(PREFIX)]
    if not earlier:
        return []
    return [
        f"The run was recorded under earlier rules ({', '.join(earlier[:3])}"
        f"{' and more' if len(earlier) > 3 else ''}): these take their place and can undo what "
        "they did, so keep the earlier file where it was good enough."
    ]


def how_to(
    plan: PoolPlan, rules: Sequence[Rule], source: str, pools_path: str, allocation_url: str
) -> str:
    """Fill the page with the names of a plan; lines to copy are those for the first pool.

    plan: What the rules were compiled to.
    rules: They hold the queries' names.
    source: The rules file.
    pools_path, allocation_url: Where the plan and the allocation file are, as a setting of Spark
        names them.
    """
    names = {rule.fingerprint: rule.query_name for rule in scheduler_rules(rules)}
    query = {a.pool: names.get(a.fingerprint, a.description) for a in plan.assignments}
    first = plan.assignments[0].pool if plan.assignments else "default"
    called = _plain(query.get(first, "")) or "a query"
    return Template(read_data(HOW_TO)).substitute(
        version=__version__,
        source=_code(source),
        pools=_table(plan, query),
        notes="\n".join(f"- {_escaped(note)}" for note in plan.notes),
        pool=first,
        query=called.replace("`", "'"),
        query_python=json.dumps(called, ensure_ascii=False),
        pools_path=shlex.quote(_plain(pools_path)),
        allocation_url=shlex.quote(_plain(allocation_url)),
    )


def _table(plan: PoolPlan, query: dict[str, str]) -> str:
    if not plan.pools:
        return "No rule acts through pools: there is nothing to apply."
    capped = any(pool.is_capped for pool in plan.pools)
    cap = " cap |" if capped else ""
    lines = [
        f"| pool | weight | minShare | mode |{cap} for |",
        f"|---|---|---|---|---|{cap and '---|'}",
    ]
    for pool in plan.pools:
        who = _escaped(in_a_sentence(query[pool.name])) if pool.name in query else "others"
        cap = f" {cap_words(pool)} |" if capped else ""
        lines.append(
            f"| {_escaped(pool.name)} | {pool.weight} | {pool.min_share} | {pool.mode} |"
            f"{cap} {who} |"
        )
    return "\n".join(lines)


def _plain(text: str) -> str:
    """One line that a terminal and an editor show as it is: names in logs are not ours."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|&#" else c for c in _plain(text))


def _code(text: str) -> str:
    return f"`{_plain(text).replace('`', chr(39))}`"
