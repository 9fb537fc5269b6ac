"""Compare how culprits of loud simulated clusters are ranked with the best that can be had.

    .venv/bin/python scripts/experiments/loud_ranking.py [--seeds 3]

The seeds are not those that the formula was chosen on.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.ranking_ceiling import rankings

FIRST_SEED = 601
RESULT = Path(__file__).resolve().parents[2] / "docs" / "evaluation" / "loud_ranking.json"


def main() -> None:
    """Rank by blame, by another truth and by the oracle; store the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each family")
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().seeds)
    luck, rows = rankings(seeds)
    result = {"seeds": [seeds.start, seeds.stop - 1], "luck": luck, "rows": rows}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
