"""Rules: what is proposed, why, what it is expected to do, and how to apply it."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from iqcar.base.units import percent, printable
from iqcar.diagnosis import Diagnosis
from iqcar.rules.compile_pools import allocation_xml, compile_rules, compiled_for, dump_compiled
from iqcar.rules.rule import scheduler_rules
from iqcar.say.rule_lines import (
    advice_lines,
    all_words,
    do_not_apply,
    rejected_lines,
    rule_lines,
    together_words,
)
from iqcar.say.sections import acting_rules_section


def rules_part(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay out rules with their evidence, and the files that apply them."""
    rules = scheduler_rules(diagnosis.rules)
    lines = rule_lines(diagnosis.rules)
    rejected = rejected_lines(diagnosis.rejected_rules)
    common = {
        "rejected": rejected,
        "advice": advice_lines(diagnosis.rules),
        "acted": acting_rules_section(diagnosis.tables),
    }
    if not rules:
        return {
            "sentence": "No scheduler rule is proposed: no query lost enough to another to be "
            "worth one."
            if not rejected
            else do_not_apply(diagnosis),
            "rules": [],
            **common,
        }
    earlier = diagnosis.earlier
    recorded = compiled_for(diagnosis.tables, rules, earlier.recorded)
    plan = compile_rules(rules, recorded.slots, recorded.running, recorded.pools, all_rules=True)
    pools = len(plan.pools) > 0
    together = diagnosis.rules_together
    return {
        "sentence": _sentence(diagnosis, len(rules), pools),
        "rules": lines,
        "all": all_words(together) if together is not None else "",
        "together": together_words(together) if together is not None else "",
        "assumptions": together.assumptions if together is not None else "",
        "notes": [printable(note) for note in (*earlier.notes, *plan.notes)],
        "rules_file": _visible(_file_of(diagnosis)),
        "allocation": allocation_xml(plan.pools).decode("utf-8") if pools else "",
        "pools": pools,
        **common,
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
        text += f"; together they are expected to {does} their victims' time by "
        text += percent(abs(change) / 100)
    return text + ". Save the rules file and give it to the plugin, as shown below."
