"""Write the demo's last result (build/demo/diagnosis.txt), shortened, into the README."""

from __future__ import annotations

import re
import sys
from itertools import takewhile
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
RULES_SHOWN = 2
CHANGED = "What the rules changed"


def shorten(text: str) -> list[str]:
    """Keep the worst-hit query, the first rules, what they changed, and the what-if."""
    lines = [line.rstrip() for line in text.splitlines()]
    worst = lines.index(next(line for line in lines if line.startswith("1. ")))
    target = list(takewhile(bool, lines[worst:]))
    rules = list(takewhile(bool, lines[lines.index("Scheduler rules") :]))
    starts = [n for n, line in enumerate(rules) if re.match(r" +(AGG|DYNP|CAP) ", line)]
    end = starts[RULES_SHOWN] if len(starts) > RULES_SHOWN else len(rules)
    changed = lines[lines.index(CHANGED) :]
    table = next(n for n, line in enumerate(changed) if line.startswith("query "))
    return [*target, "   ...", "", *rules[:end], "   ...", "", CHANGED, *changed[table:]]


def main() -> None:
    """Replace what stands between the README's two demo marks."""
    found = REPO / "build" / "demo" / "diagnosis.txt"
    if not found.exists():
        sys.exit("write_readme: run scripts/demo first")
    block = "\n".join("    " + line if line else "" for line in shorten(found.read_text("utf-8")))
    readme = REPO / "README.md"
    before, rest = readme.read_text("utf-8").split("<!-- demo -->")
    after = rest.split("<!-- /demo -->")[1]
    readme.write_text(f"{before}<!-- demo -->\n{block}\n<!-- /demo -->{after}", "utf-8")
    sys.stdout.write("Wrote README.md\n")


if __name__ == "__main__":
    main()
