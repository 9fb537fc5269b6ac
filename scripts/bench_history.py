"""Measure a store: what an addition costs beside the diagnosis, what is kept, how answers grow.

    scripts/bench history           100 and 400 nightly applications
    scripts/bench history --full    1,000 and 4,000

Everything runs in one process, and figures are ratios of CPU times of one run, but for bytes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from iqcar.history import add, changes, top, who
from iqcar.pipeline import diagnose, read
from tests.support.nightly_logs import nightly_logs

GROWTH = 4


def cpu_s(work: Callable[[], object]) -> float:
    """CPU time that something takes in this process, its threads included."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="1,000 and 4,000 applications")
    count = 1000 if parser.parse_args().full else 100
    with tempfile.TemporaryDirectory(prefix="iqcar-history-") as name:
        folder = Path(name)
        logs = sorted(nightly_logs(folder / "logs", GROWTH * count).iterdir())
        diagnose(read([logs[0]]), expected=False)  # compiles, or loads what is compiled
        alone = cpu_s(
            lambda: [diagnose(read([log], processes=1), expected=False) for log in logs[:count]]
        )
        few, many = str(folder / "few"), str(folder / "many")
        first = cpu_s(lambda: add(few, logs[:count], processes=1))
        again = cpu_s(lambda: add(few, logs[:count], processes=1))
        add(many, logs, processes=1)
        size = sum(file.stat().st_size for file in Path(many).rglob("*.parquet")) / len(logs)
        asked = {
            ask.__name__: cpu_s(lambda ask=ask: ask(many)) / cpu_s(lambda ask=ask: ask(few))
            for ask in (top, who, changes)
        }
    print(f"{count:,} applications, then {GROWTH * count:,}")
    print(f"addition over diagnosis       {first / alone:.2f}")
    print(f"second addition over the first {again / first:.3f}")
    print(f"bytes kept of an application  {size:,.0f}")
    for question, ratio in asked.items():
        print(f"{question}: {GROWTH} times as many applications take {ratio:.1f} times as long")
    return 0


if __name__ == "__main__":
    sys.exit(main())
