"""Write into the README what experiments found, and what the demo last found if it was run here."""

from __future__ import annotations

import json
import re
import sys
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import Any

from iqcar.base.units import change_words, percent
from iqcar.say.section import range_words

REPO = Path(__file__).resolve().parent.parent
README = REPO / "README.md"
DEMO = REPO / "build" / "demo" / "diagnosis.txt"
CHANGED = "What the rules changed"


def result(name: str) -> Any:
    """What an experiment found."""
    return json.loads((REPO / "docs" / "evaluation" / f"{name}.json").read_text("utf-8"))


def relative(change: float) -> str:
    """Write a share more or less: ``-12 %``."""
    return change_words(100 * change)


def evaluation() -> str:
    """Three numbers of the evaluation, and what it missed."""
    families = [row for row in result("families")["rows"] if row["plain"]]
    every = next(row for row in families if row["family"] == "all")
    hard = min((row for row in families if row["group"] and row["top"] is not None),
               key=lambda row: row["top"])  # fmt: skip
    live = result("whatif_live")["clusters"].values()
    removals = [one["kinds"]["remove"] for one in live]
    errors = [one["methods"]["model"]["median"] for one in removals]
    changes = [one["change"] for one in removals]
    rules = result("rules_efficacy")
    arms = {arm["arm"]: arm for arm in rules["arms"]}
    before, after = (median(arms[name]["target_s"]) for name in ("BASE", "ALL"))
    worst, paid = max(arms["ALL"]["queries"].items(), key=lambda item: item[1])
    lines = [
        f"- **{percent(every['top'])}**: how often the query whose removal helps most is blamed",
        f"  first, on simulated clusters; chance allows {percent(every['luck_top'])}.",
        f"- **{before:.1f} s → {after:.1f} s**: what {rules['target']} took without and with the",
        "  proposed rules on a real Spark; all queries together "
        f"{relative(arms['ALL']['total_change'])}.",
        f"- **{range_words(min(errors), max(errors), percent)}**: median error of what-if answers",
        "  without one query on a real Spark, embedded and with two workers; such removals changed",
        f"  durations by {percent(median(changes))}.",
        "",
        f"Misses: rules share slots out and make none, so {worst} took {percent(paid)} longer;",
        f"in {hard['family']}, the worst culprit came first in {percent(hard['top'])} only.",
    ]
    return "\n".join(lines)


def demo(text: str) -> str:
    """What the rules changed in the demo."""
    lines = [line.rstrip() for line in text.splitlines()]
    changed = lines[lines.index(CHANGED) :]
    table = next(n for n, line in enumerate(changed) if line.startswith("query "))
    return "\n".join("    " + line for line in takewhile(bool, changed[table:]))


def between_marks(readme: str, mark: str, content: str) -> str:
    """Replace what stands between two marks."""
    pair = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
    return re.sub(pair, lambda found: f"{found[1]}{content}\n{found[2]}", readme, flags=re.DOTALL)


def main() -> None:
    """Replace what stands between the README's marks."""
    readme = between_marks(README.read_text("utf-8"), "evaluation", evaluation())
    if DEMO.exists():
        readme = between_marks(readme, "demo", demo(DEMO.read_text("utf-8")))
    README.write_text(readme, "utf-8")
    missing = "" if DEMO.exists() else ", but for the demo: scripts/demo has not run here"
    sys.stdout.write(f"Wrote README.md{missing}\n")


if __name__ == "__main__":
    main()
