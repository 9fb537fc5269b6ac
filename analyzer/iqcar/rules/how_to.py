"""Write a page that says how to apply a plan, with lines to copy."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from string import Template

from iqcar.rules.pool_plan import PoolPlan
from iqcar.rules.rule import Rule, scheduler_rules
from iqcar.rules.rule_sentences import cap_words, in_a_sentence
from iqcar.rules.vocabulary.data_files import HOW_TO, read_data
from iqcar.version import __version__


def how_to(
    plan: PoolPlan, rules: Sequence[Rule], source: str, pools_path: str, allocation_url: str
) -> str:
    """Fill the page with the names of a plan; lines to copy are those for the first pool.

    Parameters
    ----------
    plan : PoolPlan
        What the rules were compiled to.
    rules : sequence of Rule
        They hold the queries' names.
    source : str
        The rules file.
    pools_path, allocation_url : str
        Where the plan and the allocation file are, as a setting of Spark names them.
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
