"""Follow the demo's mix while it runs, and write what `iqcar live` showed into docs/live.md."""

from __future__ import annotations

import argparse
import io
import json
import sys
import threading
import time
from pathlib import Path

from iqcar.apps.demo.mix import SCHEDULE, make_data, queries_of
from iqcar.apps.demo.run_mix import run_mix, slots_here
from iqcar.diagnosis import Settings
from iqcar.errors import IqcarError
from iqcar.live.watch import Watch
from iqcar.live.window import Window
from iqcar.show.terminal.layout import terminal
from iqcar.show.terminal.live import window_view

REPO = Path(__file__).resolve().parent.parent
WINDOW_MS = 60_000.0
EVERY_S = 2.0


def seen_while(folder: Path, running: threading.Thread) -> list[Window]:
    """Follow the application that writes a log into a folder until it ends."""
    watch, windows = None, []
    while watch is None or not watch.over:
        if watch is None:
            try:
                watch = Watch(str(folder), Settings(top=3), WINDOW_MS)
            except IqcarError:
                if not running.is_alive():
                    raise
        if watch is not None:
            watch.read()
            if (window := watch.window()) is not None:
                windows.append(window)
        time.sleep(EVERY_S)
    return windows


def as_text(window: Window) -> list[str]:
    """Print a window as a terminal shows it."""
    out = io.StringIO()
    terminal(out).print(window_view(window))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def chosen(windows: list[Window]) -> Window:
    """Choose the window halfway to the one in which most was lost: several are in the way."""
    lost = [float(window.diagnosis.lost_to_others_ms().sum()) for window in windows]
    return windows[lost.index(max(lost)) // 2]


def main() -> None:
    """Record, and replace what stands between the page's two marks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.3)
    parser.add_argument("--out", type=Path, default=REPO / "build" / "demo")
    options = parser.parse_args()
    data = make_data(options.out, options.scale)
    tpcds = json.loads((data / "queries.json").read_text("utf-8"))
    queries = queries_of(SCHEDULE, tpcds, slots_here(), options.scale)
    recorded = options.out / "live"
    mix = threading.Thread(target=run_mix, args=(queries, data, recorded), kwargs={"name": "live"})
    mix.start()
    windows = seen_while(recorded / "eventlogs", mix)
    mix.join()
    lines = ["", *("    " + line if line else "" for line in as_text(chosen(windows)))]
    page = REPO / "docs" / "live.md"
    before, rest = page.read_text("utf-8").split("<!-- recording -->")
    after = rest.split("<!-- /recording -->")[1]
    block = "\n".join(lines)
    page.write_text(f"{before}<!-- recording -->\n{block}\n\n<!-- /recording -->{after}", "utf-8")
    sys.stdout.write(f"Wrote docs/live.md: {len(windows)} windows were seen\n")


if __name__ == "__main__":
    main()
