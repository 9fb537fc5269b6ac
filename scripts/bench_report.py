"""Measure the size of a report and how fast it opens, with many tasks and with few, in one run.

    scripts/bench report            100,000 tasks
    scripts/bench report --full     1,000,000 tasks (needs about 6 GB of memory)

Both applications have always-busy slots and queries that overlap all the time, so all queries blame
each other: the worst case for the size of the page. The figures are the size, and the ratio of
large to small report for the time in the browser to open and to redraw after a selection.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from iqcar.show.html import files, render_page
from scripts.benchmarks import Goals, parser_of, sized
from tests.support.browsing import chromium, open_browser
from tests.support.many_tasks import many_tasks
from tests.support.shown_page import show

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from iqcar.diagnosis import Diagnosis

SMALL_TASKS = 200
MOST_MB = 15
"""Goal: size of a report of a million tasks at most."""
MOST_TIMES = 4
"""Goal: opening the large report takes at most this many times as long as the small one."""
ROUNDS = 3


class Figures(NamedTuple):
    """Size of one report in megabytes, and times in seconds."""

    megabytes: float
    made_s: float
    opened_s: float
    chosen_s: float


def application(tasks: int) -> Diagnosis:
    """Return an application of that many tasks, with hosts and queries to run them in hours."""
    if tasks <= SMALL_TASKS:
        return many_tasks(tasks, hosts=2, executors=2, queries=4)
    large = tasks >= 1_000_000
    hosts, queries = (50, 200) if large else (20, 60)
    return many_tasks(tasks, hosts=hosts, executors=2 * hosts, cores=8, queries=queries)


def measure(browser: Browser, tasks: int, folder: Path) -> Figures:
    diagnosis = application(tasks)
    began = time.process_time()
    text = render_page(diagnosis)
    made = time.process_time() - began
    file = folder / f"{tasks}.html"
    file.write_text(text, encoding="utf-8")
    opened, chosen = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        shown = show(browser, file, viewport={"width": 1366, "height": 768})
        shown.until("document.querySelectorAll('[data-drawn]').length >= 5")
        opened.append(time.perf_counter() - began)
        chosen.append(
            shown.page.evaluate(
                """async () => {
                  const chooser = document.getElementById('target');
                  const began = performance.now();
                  for (const at of [1, 2, 0]) {
                    chooser.selectedIndex = at;
                    chooser.dispatchEvent(new Event('change'));
                    await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
                  }
                  return (performance.now() - began) / 3000;
                }"""
            )
        )
        shown.check_nothing_went_wrong()
        shown.page.context.close()
    return Figures(
        len(text.encode()) / 1e6, made, statistics.median(opened), statistics.median(chosen)
    )


def main() -> int:
    options = parser_of(__doc__, full="a million tasks").parse_args()
    if chromium() is None:
        sys.exit("bench report: needs Chromium, which opens the reports")
    tasks = sized(options, quick=2_000, usual=100_000, full=1_000_000)
    render_page(application(SMALL_TASKS))  # compiling and importing are not what is measured
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        small = measure(browser, SMALL_TASKS, Path(folder))
        large = measure(browser, tasks, Path(folder))
    program = len(files.plotly().encode()) / 1e6
    print(f"{'tasks':>12} {'MB':>7} {'made (CPU s)':>13} {'opened (s)':>11} {'a choice (s)':>13}")
    for count, one in ((SMALL_TASKS, small), (tasks, large)):
        print(
            f"{count:>12,} {one.megabytes:>7.2f} {one.made_s:>13.2f} {one.opened_s:>11.2f} "
            f"{one.chosen_s:>13.3f}"
        )
    print(f"{program:.2f} MB of each are Plotly's program.")
    print(f"A choice takes {large.chosen_s / small.chosen_s:.2f} times as long.")
    goals = Goals()
    goals.most("size of the large report", large.megabytes, MOST_MB, "MB")
    goals.most("opening it over the small one", large.opened_s / small.opened_s, MOST_TIMES)
    return goals.end()


if __name__ == "__main__":
    sys.exit(main())
