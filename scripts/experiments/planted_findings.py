"""Plant what findings are about in simulated clusters, and take the action of each finding.

    .venv/bin/python scripts/experiments/planted_findings.py [--seeds 12]

The same run with the action taken tells what was saved. Each kind is checked with the range of the
replay, and with that of the estimate, which stands where a log is too large to be replayed. On
quiet clusters nothing is planted. Ranges were chosen on other seeds (1–12, 801–805, 901–912).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iqcar_lab.clusters.findings import FIRST, KINDS, Checked, check, check_quiet
from iqcar_lab.clusters.quiet import QUIET

FIRST_SEED = 921
QUIET_SEEDS = 3
RESULT = Path(__file__).resolve().parents[2] / "docs" / "evaluation" / "planted_findings.json"


def main() -> None:
    """Check every kind, and every quiet family; store and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=12, help="runs of each kind")
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().seeds)
    with ProcessPoolExecutor(2) as workers:
        rows = list(_planted(workers, seeds))
        families = list(product(QUIET, range(FIRST_SEED, FIRST_SEED + QUIET_SEEDS)))
        quiet = [one for found in workers.map(_quiet, families) for one in found]
    result = {
        "seeds": [seeds.start, seeds.stop - 1],
        "kinds": rows,
        "quiet": {
            "runs": len(families),
            "kinds": [
                _counts(kind, [one for one in quiet if one.kind == kind])
                for kind in sorted({one.kind for one in quiet})
            ],
        },
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    sys.stdout.write(RESULT.read_text("utf-8"))


def _planted(workers: ProcessPoolExecutor, seeds: range) -> Iterator[dict[str, Any]]:
    for kind in KINDS:
        cases = [(kind, seed) for seed in seeds]
        found = list(workers.map(_replayed, cases))
        estimated = [one for one, _ in workers.map(_estimated, cases)]
        mine = [one for one, _ in found]
        others = [one for _, rest in found for one in rest]
        yield {
            "kind": kind,
            "runs": len(mine),
            "first": sum(one.rank == 1 for one in mine),
            "in_three": sum(0 < one.rank <= FIRST for one in mine),
            "within": sum(one.within for one in mine),
            "within_estimated": sum(one.within for one in estimated),
            "saved": _mean(one.saved_ms / one.ran_ms for one in mine),
            "said": _mean(one.finding.saves_ms / one.ran_ms for one in mine if one.finding),
            "low": _mean(one.finding.low_ms / one.ran_ms for one in mine if one.finding),
            "high": _mean(one.finding.high_ms / one.ran_ms for one in mine if one.finding),
            "others": len(others),
            "others_false": sum(one.false for one in others),
        }


def _counts(kind: str, found: list[Checked]) -> dict[str, Any]:
    within, false = (sum(getattr(one, name) for one in found) for name in ("within", "false"))
    return {"kind": kind, "found": len(found), "within": within, "false": false}


def _mean(shares: Iterator[float]) -> float:
    known = list(shares)
    return sum(known) / max(len(known), 1)


def _replayed(case: tuple[str, int]) -> tuple[Checked, list[Checked]]:
    return check(*case)


def _estimated(case: tuple[str, int]) -> tuple[Checked, list[Checked]]:
    return check(*case, replay=False)


def _quiet(case: tuple[str, int]) -> list[Checked]:
    return check_quiet(*case)


if __name__ == "__main__":
    main()
