"""Hold the first findings of other people's event logs against what an expert says of them.

    .venv/bin/python scripts/experiments/real_logs.py [FOLDER]

The folder is that of the tests by default (IQCAR_EVENTLOGS).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import iqcar
from iqcar.base.units import printable
from iqcar.say import find_verdict
from tests.conftest import shared_logs_folder
from tests.support.finding_labels import Label, judged, labels

RESULT = Path(__file__).resolve().parents[2] / "docs" / "evaluation" / "real_logs.json"


def judged_log(path: Path, label: Label) -> dict[str, Any]:
    """What an expert says of a log, and what iqcar says."""
    tables = iqcar.read(path)
    found = judged(find_verdict(iqcar.diagnose(tables)), label)
    (app,) = tables.applications.to_dict("records")
    return {
        "application": printable(app["name"]),
        "spark": printable(app["spark_version"]),
        "master": printable(app["master"]).partition("://")[0],
        "expert": label.expert,
        "first": label.first,
        "never": [*label.never, *label.never_words],
        "said": found.said,
        "right": found.right,
        "wrong": found.wrong,
    }


def main() -> None:
    """Judge each log that has a label; store what was said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=shared_logs_folder())
    folder = parser.parse_args().folder
    rows = [
        judged_log(folder / name, label)
        for name, label in labels().items()
        if (folder / name).exists()
    ]
    RESULT.write_text(json.dumps({"rows": rows}, indent=1) + "\n", "utf-8")
    right = sum(row["right"] for row in rows)
    wrong = sum(bool(row["wrong"]) for row in rows)
    sys.stdout.write(f"{right} of {len(rows)} right; {wrong} say what nobody may say\n")


if __name__ == "__main__":
    main()
