"""Let many queries have one recurring trouble; run them again under rules without topics and with.

    .venv/bin/python scripts/experiments/topic_rules.py [--seeds 4]

Rules come from the log of one simulated run; what they save is measured in another one, with other
sizes of tasks, against that run without rules. Thresholds were chosen on seeds 0 to 25.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iqcar.pipeline import diagnose
from iqcar_lab.clusters.recurring import CULPRIT, FAMILIES, compiled, lasted, logged, trouble

FIRST_SEED = 2_301
NEXT_RUN = 500_000
"""Added to a seed: the luck of the run that rules are tried in."""
ARMS = {"without": False, "with": None}
"""Whether topics are looked for."""
RESULT = Path(__file__).resolve().parents[2] / "docs" / "evaluation" / "topic_rules.json"


def main() -> None:
    """Try rules of every family with and without topics; store and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="runs of each family")
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().seeds)
    with ProcessPoolExecutor(2) as workers:
        found = list(workers.map(tried, product(FAMILIES, seeds)))
    rows = [family_row(name, [one for one in found if one["family"] == name]) for name in FAMILIES]
    result = {"seeds": [seeds.start, seeds.stop - 1], "families": rows}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    sys.stdout.write(RESULT.read_text("utf-8"))


def tried(case: tuple[str, int]) -> dict[str, Any]:
    """What rules of one run save in the next one, as shares of it."""
    family, seed = case
    world = trouble(family, seed)
    tables, base = logged(world, seed), lasted(world, seed + NEXT_RUN)
    found: dict[str, Any] = {"family": family}
    for arm, topics in ARMS.items():
        diagnosis = diagnose(tables, topics=topics)
        ruled = compiled(diagnosis, diagnosis.rules)
        after = lasted(world, seed + NEXT_RUN, ruled)
        found[arm] = {
            "saved": saved(base, after, list(base)),
            "saved_short": saved(base, after, [name for name in base if name != CULPRIT]),
            "rules": sum(rule.helps_pools for rule in diagnosis.rules),
            "topics": diagnosis.topics is not None,
        }
    return found


def saved(before: dict[str, float], after: dict[str, float], names: list[str]) -> float:
    """Share of the time of some queries that was saved."""
    return 1.0 - sum(after[name] for name in names) / sum(before[name] for name in names)


def family_row(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the runs of a family."""
    row: dict[str, Any] = {"family": name, "runs": len(found)}
    for arm in ARMS:
        for key in ("saved", "saved_short", "rules"):
            row[f"{key}_{arm}"] = sum(one[arm][key] for one in found) / len(found)
    more = [one["with"]["saved"] - one["without"]["saved"] for one in found]
    row["better"] = sum(difference > 0.001 for difference in more)
    row["worse"] = sum(difference < -0.001 for difference in more)
    row["worst"], row["topics"] = min(more), sum(one["with"]["topics"] for one in found)
    return row


if __name__ == "__main__":
    main()
