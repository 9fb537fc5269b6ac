"""Rules: what is proposed, why, what it is expected to do, and how to apply it."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from iqcar.base import limits
from iqcar.base.units import printable
from iqcar.diagnosis import Diagnosis
from iqcar.rules.compile_pools import compile_rules
from iqcar.rules.rule import Rule, scheduler_rules
from iqcar.rules.rule_file import allocation_xml, compiled_for, dump_compiled
from iqcar.say.rule_lines import do_not_apply, rejected_lines, rule_lines, together_words
from iqcar.say.rules_acting import acting_rules, not_accepted, since_start
from iqcar.show.terminal.advice_section import title
from iqcar.tables import Tables


def rules_section(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay out rules with their evidence, and the files that apply them."""
    rules = scheduler_rules(diagnosis.rules)
    lines = rule_lines(diagnosis.rules)
    rejected = rejected_lines(diagnosis.rejected_rules)
    advice = [_advice(rule) for rule in diagnosis.rules if rule.is_advice]
    acted = _acted(diagnosis.tables)
    if not rules:
        return {
            "sentence": "No scheduler rule is proposed: no query lost enough to another to be "
            "worth one."
            if not rejected
            else do_not_apply(diagnosis),
            "rules": [],
            "rejected": rejected,
            "advice": advice,
            **acted,
        }
    earlier = diagnosis.earlier
    recorded = compiled_for(diagnosis.tables, rules, earlier.recorded)
    plan = compile_rules(rules, recorded.slots, recorded.running, recorded.pools, all_rules=True)
    pools = len(plan.pools) > 0
    together = diagnosis.rules_together
    return {
        "sentence": _sentence(diagnosis, len(rules), pools),
        "rules": lines,
        "rejected": rejected,
        "advice": advice,
        "together": together_words(together) if together is not None else "",
        "assumptions": together.assumptions if together is not None else "",
        "notes": [printable(note) for note in (*earlier.notes, *plan.notes)],
        "rules_file": _visible(_file_of(diagnosis)),
        "allocation": allocation_xml(plan.pools).decode("utf-8") if pools else "",
        "pools": pools,
        **acted,
    }


def _acted(tables: Tables) -> dict[str, Any]:
    """Lay out which rules acted when in the recorded run, and what was not accepted."""
    acting, refused = acting_rules(tables), not_accepted(tables)
    return {
        "acted": [
            {
                "rule": printable(one.rule),
                "from": since_start(tables, one.app, one.from_ms),
                "until": since_start(tables, one.app, one.until_ms),
                "sentence": one.sentence,
            }
            for one in acting[: limits.MOST_ACTED]
        ],
        "acted_left_out": max(0, len(acting) - limits.MOST_ACTED),
        "not_accepted": [
            f"{since_start(tables, app, time)}: {sentence}"
            for app, time, sentence in refused[: limits.MOST_ACTED]
        ],
    }


def _file_of(diagnosis: Diagnosis) -> str:
    earlier = diagnosis.earlier
    content = dump_compiled(diagnosis.tables, diagnosis.rules, earlier.recorded, earlier.notes)
    return content.decode("utf-8")


def _visible(json_text: str) -> str:
    """Escape what would change how the text around it is read; as JSON it stays the same."""
    return "".join(
        json.dumps(c)[1:-1] if unicodedata.category(c) in ("Cf", "Zl", "Zp") else c
        for c in json_text
    )


def _advice(rule: Rule) -> dict[str, Any]:
    """Lay out a rule that is for people: no scheduler acts on it."""
    return {
        "id": rule.id,
        "title": title(rule),
        "host": printable(rule.host),
        "reason": printable(rule.reason),
        "advice": printable(rule.advice),
        "settings": [{key: printable(text) for key, text in one.items()} for one in rule.settings],
    }


def _sentence(diagnosis: Diagnosis, count: int, pools: bool) -> str:
    rules = "1 rule is" if count == 1 else f"{count} rules are"
    if not pools:
        return (
            f"{rules} proposed, but none acts through scheduler pools: read below what would help."
        )
    together = diagnosis.rules_together
    if together is not None and together.harms:
        return do_not_apply(diagnosis)
    text = f"{rules} proposed for the next runs"
    if together is not None:
        change = together.victims_change_percent
        does = "shorten" if change < 0 else "lengthen"
        text += f"; together they are expected to {does} their victims' time by {abs(change):.0f} %"
    return text + ". Save the rules file and give it to the plugin, as shown below."
