"""Measure the effect of rules (iQCAR §7.3): the BASE mix without, with AGG, with DYNP, with all.

    .venv/bin/python scripts/experiments/rules_efficacy.py [--repeats N]

The rules come from one BASE run, as `iqcar analyze --rules` writes them; the runs that are
compared come after it and alternate. AGG: the rule for the most aggressive query alone (§7.3.1).
DYNP: the rule for the most-hurt query alone (§7.3.2). ALL: the whole file.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from math import isnan
from pathlib import Path

from arms import Arm, alternate, base_queries, fresh, options, run_once, save
from tables import rules_efficacy

import iqcar
from iqcar.apps.demo.run_mix import Run
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Resource
from iqcar.rules.compile_pools import dump_compiled
from iqcar.rules.rule import Rule

EXPERIMENT = "rules_efficacy"


def main() -> None:
    """Propose rules from one BASE run, then run all arms in turn."""
    chosen = options(__doc__, repeats=3, scale=0.3)
    folder = fresh(EXPERIMENT)
    data, queries = base_queries(chosen.scale)
    first = run_once(EXPERIMENT, Arm("BASE", queries), data, 0)
    diagnosis = iqcar.diagnose(iqcar.read([first.log]))
    names = [str(name) for name in diagnosis.tables.queries["name"]]
    target = names[diagnosis.targets[0]]
    aggressive = [rule for rule in diagnosis.rules if rule.rule_type == "AGG"][:1]
    aggressor = aggressive[0].query_name if aggressive else ""
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
            "aggressor": aggressor,
            "arms": [measure(name, these, base, target, aggressor) for name, these in runs.items()],
        },
        rules_efficacy,
    )


def write(path: Path, diagnosis: Diagnosis, rules: Sequence[Rule]) -> str:
    """Write rules as the plugin reads them; return where."""
    path.write_bytes(dump_compiled(diagnosis.tables, rules))
    return str(path.resolve())


def measure(
    name: str, runs: list[Run], base: list[Run], target: str, aggressor: str
) -> dict[str, object]:
    """Change of every query's duration, of the sum, and of what made queries wait.

    wait_shares: share of each resource in all that the target waited for (figure 12); means.
    aggressor_dor: DOR of the aggressor towards each other query (figure 10 b); means.
    """

    def change(of: object) -> float:
        return statistics.median(map(of, runs)) / statistics.median(map(of, base)) - 1  # type: ignore[arg-type]

    seen = [(waits_s(diagnosis, target), dor_of(diagnosis, aggressor)) for diagnosis in read(runs)]
    return {
        "arm": name,
        "target_s": [run.duration_s[target] for run in runs],
        "total_s": [run.total_s for run in runs],
        "target_change": change(lambda run: run.duration_s[target]),
        "total_change": change(lambda run: run.total_s),
        "slot_wait_s": statistics.median(waits[Resource.SLOTS] for waits, _ in seen),
        "wait_shares": {
            str(resource): statistics.mean(
                waits[resource] / max(sum(waits.values()), 1e-9) for waits, _ in seen
            )
            for resource in Resource
        },
        "aggressor_dor": {
            query: statistics.mean(dor.get(query, 0.0) for _, dor in seen)
            for query in base[0].duration_s
            if query != aggressor
        },
        "queries": {
            query: change(lambda run, query=query: run.duration_s[query])
            for query in base[0].duration_s
        },
    }


def read(runs: list[Run]) -> Iterator[Diagnosis]:
    """Diagnose each run, with all of its queries as targets."""
    for run in runs:
        yield iqcar.diagnose(iqcar.read([run.log]), targets=list(run.duration_s))


def waits_s(diagnosis: Diagnosis, target: str) -> dict[Resource, float]:
    """Task time that the target waited for each resource, in s; what is unknown counts nothing."""
    row = rows_of(diagnosis)[target]
    waited = {
        resource: float(diagnosis.queries[f"{resource}_wait_ms"].iloc[row]) / 1e3
        for resource in Resource
    }
    return {resource: 0.0 if isnan(one) else one for resource, one in waited.items()}


def dor_of(diagnosis: Diagnosis, aggressor: str) -> dict[str, float]:
    """DOR of one query towards each other."""
    found = {}
    for name, row in rows_of(diagnosis).items():
        blamed = diagnosis.graph.blame_of(row)
        its = (blamed["kind"] == "query") & (blamed["source_name"] == aggressor)
        found[name] = float(blamed.loc[its.to_numpy(bool), "dor"].sum())
    return found


def rows_of(diagnosis: Diagnosis) -> dict[str, int]:
    """Row of each target by its name."""
    names = diagnosis.tables.queries["name"].astype(str)
    return {names.iloc[row]: row for row in diagnosis.targets}


if __name__ == "__main__":
    main()
