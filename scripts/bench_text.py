"""Measure the time per character of texts made to be slow, and of ordinary texts against `re`.

    scripts/bench text           every matcher on hostile texts of n and 4n characters
    scripts/bench text --full    ten times as long, and more texts

A ratio of 1 is linear, 4 quadratic. Ordinary texts are plan lines, names and SQL: the reader's time
for them is compared with one search of Python's `re` for the words that make a text suspicious.
"""

from __future__ import annotations

import re

from iqcar.logs import text as redacting
from scripts.benchmarks import Goals, parser_of, sized
from tests.logs.test_fingerprint import DIFFERENT, SAME
from tests.logs.test_linear import MATCHERS
from tests.support.hostile_texts import Hostile, hostile, least_cost

MOST = 3.0
"""Goal: growth of the time per character at four times the length; 4 is quadratic, noise is 2."""
LEAST_COST = 1e-3
"""Seconds; shorter times are within the noise of the machine."""
NAMES = ("count at App.scala:12", "nightly sales report", "SELECT d_year, sum(x) FROM t GROUP BY 1")
SUSPICIOUS = re.compile(
    rf"(?i){redacting._SENSITIVE}|://[^\s/]*@|bearer|basic|[A-Za-z0-9+/_\-]{{20}}"
)


def worst_of_all(texts: list[Hostile], length: int) -> float:
    """Print the worst ratio of each matcher; return the worst of all."""
    worst_ratio = 0.0
    print(
        f"{'matcher':<12} {'n':>9} {'worst: first, repeated, last':<50} {'ns/char':>8} {'ratio':>6}"
    )
    for name, work in MATCHERS.items():
        n = min(length, redacting.MAX_TEXT // 4) if name in ("redact", "clean") else length
        worst: tuple[float, float, tuple[str, ...]] = (0.0, 0.0, ())
        for one in texts:
            few, many = (least_cost(work, one.text(size), 4) for size in (n, 4 * n))
            if many > LEAST_COST:
                worst = max(worst, (many / few / 4, many / n / 4 * 1e9, one))
        ratio, ns, found = worst
        worst_ratio = max(worst_ratio, ratio)
        shown = " ".join(map(repr, found)) if ratio else f"none costs {LEAST_COST * 1e3:g} ms"
        print(f"{name:<12} {n:>9,} {shown:<50} {ns:>8.0f} {ratio:>6.2f}", flush=True)
    return worst_ratio


def ordinary() -> None:
    """Print the time for ordinary texts in units of one search with `re`."""
    lines = [line for pair in SAME + DIFFERENT for line in pair]
    for name, texts in (("redact", [*lines, *NAMES]), ("normalise", lines)):
        work = MATCHERS[name]
        ours = sum(least_cost(work, text, 20) for text in texts)
        theirs = sum(least_cost(SUSPICIOUS.search, text, 20) for text in texts)
        print(
            f"{name:<12} ordinary texts: {ours / theirs:.2f} of one search by re, none remembered"
        )


def main() -> int:
    options = parser_of(__doc__, full="ten times as long, and more texts").parse_args()
    texts, length = sized(options, quick=(1, 500), usual=(20, 5_000), full=(200, 50_000))
    goals = Goals()
    worst = worst_of_all(hostile(texts), length)
    ordinary()
    goals.most("the worst growth of the time per character", worst, MOST)
    return goals.end()


if __name__ == "__main__":
    raise SystemExit(main())
