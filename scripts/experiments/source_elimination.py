"""Run source elimination (iQCAR §7.2.1, §7.4): measure the victim without the blamed query.

    .venv/bin/python scripts/experiments/source_elimination.py [--repeats N]

Runs the BASE mix, lets iqcar name the sources that made the most-hurt query wait, and runs the mix
again without each of them in turn. The victim's gain must fall in the order of
DOR. The order by plain overlap in time is measured against the same gains.
"""

from __future__ import annotations

import statistics

import numpy as np
from arms import Arm, alternate, base_queries, fresh, options, run_once, save
from tables import source_elimination

import iqcar
from iqcar.apps.demo.run_mix import Run

EXPERIMENT = "source_elimination"
LEAST_DOR = 0.02
"""Sources with less are not taken away: what they cost is less than two runs differ by."""


def blamed(run: Run, target: str | None) -> tuple[str, dict[str, float], dict[str, float]]:
    """The target of a run, and each other query's share of its loss and overlap with it in s."""
    diagnosis = iqcar.diagnose(iqcar.read([run.log]), targets=[target] if target else ())
    row = diagnosis.targets[0]
    queries = diagnosis.tables.queries
    names = [str(name) for name in queries["name"]]
    table = diagnosis.graph.blame_of(row)
    others = table[table["kind"] == "query"]
    shares = dict(zip(others["source_name"], others["dor"].astype(float), strict=True))
    start, end = queries["start_ms"].to_numpy(), queries["end_ms"].to_numpy()
    overlap = np.minimum(end, end[row]) - np.maximum(start, start[row])
    overlaps = {
        names[other]: max(0.0, float(overlap[other])) / 1e3
        for other in range(len(names))
        if other != row
    }
    return names[row], shares, overlaps


def main() -> None:
    """Run BASE once to choose target and sources, then all arms in turn."""
    chosen = options(__doc__, repeats=3, scale=0.3)
    fresh(EXPERIMENT)
    data, queries = base_queries(chosen.scale)
    base = Arm("BASE", queries)
    target, shares, _ = blamed(run_once(EXPERIMENT, base, data, 0), None)
    sources = sorted((s for s in shares if shares[s] >= LEAST_DOR), key=lambda s: -shares[s])
    arms = [base] + [
        Arm(f"without-{name}", [query for query in queries if query.name != name])
        for name in sources
    ]
    runs = alternate(EXPERIMENT, arms, data, chosen.repeats)
    found = [blamed(run, target) for run in runs["BASE"]]
    duration = statistics.median(run.duration_s[target] for run in runs["BASE"])
    rows = []
    for name in sources:
        without = runs[f"without-{name}"]
        rows.append(
            {
                "source": name,
                "dor": statistics.mean(shares.get(name, 0.0) for _, shares, _ in found),
                "overlap_s": statistics.mean(overlap.get(name, 0.0) for _, _, overlap in found),
                "target_s": [run.duration_s[target] for run in without],
                "gain": 1 - statistics.median(r.duration_s[target] for r in without) / duration,
                "gain_of_others": 1
                - statistics.median(others_s(run, name) for run in without)
                / statistics.median(others_s(run, name) for run in runs["BASE"]),
            }
        )
    rows.sort(key=lambda row: -float(str(row["dor"])))
    save(
        EXPERIMENT,
        chosen.results,
        {
            "repeats": chosen.repeats,
            "scale": chosen.scale,
            "target": target,
            "base_s": [run.duration_s[target] for run in runs["BASE"]],
            "sources": rows,
        },
        source_elimination,
    )


def others_s(run: Run, source: str) -> float:
    """Seconds of all queries but the source."""
    return sum(seconds for name, seconds in run.duration_s.items() if name != source)


if __name__ == "__main__":
    main()
