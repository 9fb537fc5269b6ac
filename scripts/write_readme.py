"""Write into the README and its pages what experiments found, and what commands print.

The table of the demo is written if it was run here.
"""

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
EVALUATION = REPO / "docs" / "evaluation.md"
DEMO = REPO / "build" / "demo" / "diagnosis.txt"
CHANGED = "What the rules changed"


def result(name: str) -> Any:
    """What an experiment found."""
    return json.loads((REPO / "docs" / "evaluation" / f"{name}.json").read_text("utf-8"))


def relative(change: float) -> str:
    """Write a share more or less: ``-12 %``."""
    return change_words(100 * change)


def simulated() -> list[Any]:
    """The simulated clusters, from plain logs: a row per family, and one of all."""
    return [row for row in result("families")["rows"] if row["plain"]]


def arms() -> dict[str, Any]:
    """The runs of a mix of queries on a real Spark, with rules and without."""
    return {arm["arm"]: arm for arm in result("rules_efficacy")["arms"]}


def evaluation() -> str:
    """Three numbers of the evaluation."""
    every = next(row for row in simulated() if row["family"] == "all")
    live = result("whatif_live")["clusters"].values()
    removals = [one["kinds"]["remove"] for one in live]
    errors = [one["methods"]["model"]["median"] for one in removals]
    before, after = (median(arms()[name]["target_s"]) for name in ("BASE", "ALL"))
    lines = [
        f"- **{percent(every['said'])} said of {percent(every['true'])} lost**: the share of their"
        " run that queries lose",
        "  to others on simulated clusters, from plain logs; where they lose nothing, at most "
        f"{100 * every['noisy_worst']:.1f} % is said.",
        f"- **{before:.1f} s → {after:.1f} s**: what {result('rules_efficacy')['target']} took"
        " without and with the",
        "  proposed rules on a real Spark; all queries together "
        f"{relative(arms()['ALL']['total_change'])}.",
        f"- **within {range_words(min(errors), max(errors), percent)}** (median): what-if answers"
        " without one query, against",
        "  the same run without it on a real Spark; such removals changed durations by"
        f" {percent(median(one['change'] for one in removals))}.",
    ]
    return "\n".join(lines)


def misses() -> str:
    """What the evaluation missed."""
    hard = min((row for row in simulated() if row["group"] and row["top"] is not None),
               key=lambda row: row["top"])  # fmt: skip
    blind = max(simulated(), key=lambda row: row["missed"] or 0.0)
    worst, paid = max(arms()["ALL"]["queries"].items(), key=lambda item: item[1])
    return "\n".join(
        (
            f"- Rules share slots out and make none: {worst} took {percent(paid)} longer.",
            f"- In the simulated family “{hard['family']}”, the worst culprit came first in"
            f" {percent(hard['top'])} only.",
            f"- In “{blind['family']}”, less than a third was said of {percent(blind['missed'])} of"
            " the large losses, from plain logs.",
        )
    )


def demo(text: str) -> str:
    """What the rules changed in the demo, without what is doubtful about it."""
    lines = [line.rstrip() for line in text.splitlines()]
    changed = lines[lines.index(CHANGED) :]
    table = next(n for n, line in enumerate(changed) if line.startswith("query "))
    shown = takewhile(lambda line: line and not line.startswith("Doubtful"), changed[table:])
    return "\n".join("    " + line for line in shown)


def between_marks(readme: str, mark: str, content: str) -> str:
    """Replace what stands between two marks."""
    pair = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
    return re.sub(pair, lambda found: f"{found[1]}{content}\n{found[2]}", readme, flags=re.DOTALL)


def pages() -> dict[Path, dict[str, str]]:
    """What stands between the marks of each page, as far as it is known here."""
    found = {README: {"evaluation": evaluation()}, EVALUATION: {"misses": misses()}}
    if DEMO.exists():
        found[README]["demo"] = demo(DEMO.read_text("utf-8"))
    return found


def main() -> None:
    """Replace what stands between the marks."""
    from tour import with_output

    for page, marked in pages().items():
        text = page.read_text("utf-8")
        for mark, content in marked.items():
            text = between_marks(text, mark, content)
        text = with_output(text)
        page.write_text(text, "utf-8")
        sys.stdout.write(f"Wrote {page.relative_to(REPO)}\n")
    if not DEMO.exists():
        sys.stdout.write("The demo's table is as it was: scripts/demo has not run here.\n")


if __name__ == "__main__":
    main()
