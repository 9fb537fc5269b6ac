"""Answer what-if questions about simulated clusters, and simulate what each question asks.

    .venv/bin/python scripts/experiments/whatif_truth.py [--seeds 3]

The seeds are not those that the model was tuned on.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iqcar_lab.clusters.what_if import ask_all, print_rows, score_rows

FIRST_SEED = 911
RESULT = Path(__file__).resolve().parents[2] / "docs" / "evaluation" / "whatif_truth.json"


def main() -> None:
    """Score answers by method, question and family; store the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each family in each world")
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().seeds)
    rows = score_rows(ask_all(seeds))
    result = {"seeds": [seeds.start, seeds.stop - 1], "rows": rows}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print_rows(rows)


if __name__ == "__main__":
    main()
