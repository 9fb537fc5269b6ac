"""Measure the effect of rules (iQCAR §7.3): the BASE mix without, with AGG, with DYNP, with all.

    .venv/bin/python scripts/experiments/rules_efficacy.py [--repeats N]

The rules come from one BASE run, as `iqcar analyze --rules` writes them; the runs that are
compared come after it and alternate. AGG: the rule for the most aggressive query alone (§7.3.1).
DYNP: the rule for the most-hurt query alone (§7.3.2). ALL: the whole file.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from arms import Arm, alternate, base_queries, fresh, options, run_once, save
from live_tables import rules_efficacy

import iqcar
from iqcar.apps.demo.run_mix import Run
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Resource
from iqcar.rules.rule import Rule
from iqcar.rules.rule_file import dump_compiled

EXPERIMENT = "rules_efficacy"


def main() -> None:
    """Propose rules from one BASE run, then run all arms in turn."""
    chosen = options("Run the mix without rules, with AGG, with DYNP and with all.", 3)
    folder = fresh(EXPERIMENT)
    data, queries = base_queries(chosen.scale)
    first = run_once(EXPERIMENT, Arm("BASE", queries), data, 0)
    diagnosis = iqcar.diagnose(iqcar.read([first.log]))
    names = [str(name) for name in diagnosis.tables.queries["name"]]
    target = names[diagnosis.targets[0]]
    aggressive = [rule for rule in diagnosis.rules if rule.rule_type == "AGG"][:1]
    raised = [
        rule for rule in diagnosis.rules if rule.rule_type == "DYNP" and rule.query_name == target
    ][:1]
    sets = {"AGG": aggressive, "DYNP": raised, "ALL": list(diagnosis.rules)}
    arms = [Arm("BASE", queries)] + [
        Arm(
            name,
            queries,
            {"spark.iqcar.rules": str(write(folder / f"{name}.json", diagnosis, rules))},
        )
        for name, rules in sets.items()
        if rules
    ]
    runs = alternate(EXPERIMENT, arms, data, chosen.repeats)
    base = runs["BASE"]
    save(
        EXPERIMENT,
        chosen.results,
        {
            "repeats": chosen.repeats,
            "scale": chosen.scale,
            "target": target,
            "rules": {
                name: [{"type": r.rule_type.value, "query": r.query_name, "value": r.rule_value}]
                for name, rules in sets.items()
                for r in rules[:1]
                if name != "ALL"
            },
            "arms": [measure(name, these, base, target) for name, these in runs.items()],
        },
        rules_efficacy,
    )


def write(path: Path, diagnosis: Diagnosis, rules: Sequence[Rule]) -> str:
    """Write rules as the plugin reads them; return where."""
    path.write_bytes(dump_compiled(diagnosis.tables, rules))
    return str(path.resolve())


def measure(name: str, runs: list[Run], base: list[Run], target: str) -> dict[str, object]:
    """Change of every query's duration, of the sum, and of the target's slot wait."""

    def change(of: object) -> float:
        return statistics.median(map(of, runs)) / statistics.median(map(of, base)) - 1  # type: ignore[arg-type]

    return {
        "arm": name,
        "target_s": [run.duration_s[target] for run in runs],
        "total_s": [run.total_s for run in runs],
        "target_change": change(lambda run: run.duration_s[target]),
        "total_change": change(lambda run: run.total_s),
        "slot_wait_s": statistics.median(slot_wait_s(run, target) for run in runs),
        "queries": {
            query: change(lambda run, query=query: run.duration_s[query])
            for query in base[0].duration_s
        },
    }


def slot_wait_s(run: Run, target: str) -> float:
    """Task time that the target waited for slots, in s."""
    diagnosis: Diagnosis = iqcar.diagnose(iqcar.read([run.log]), targets=[target])
    row = diagnosis.targets[0]
    return float(diagnosis.queries[f"{Resource.SLOTS}_wait_ms"].iloc[row]) / 1e3


if __name__ == "__main__":
    main()
