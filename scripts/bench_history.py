"""Measure a store: what an addition costs beside the diagnosis, what is kept, how answers grow.

    scripts/bench history           100 and 400 nightly applications
    scripts/bench history --full    1,000 and 4,000
    scripts/bench history --year    a year of 27 applications a day, 10,000 tasks each

Figures are ratios of CPU times of one process and run, but for bytes. A year is 98.6 M tasks: the
rows of one application, read and diagnosed, are kept again and again under other names, days and
durations. Its figures are tasks diagnosed in a minute of one core, without reading their log, and
the seconds and the peak of memory that questions take in a process of their own, the first time and
again, as in a server.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from iqcar.history import add, changes, store_views, top, trend, who
from iqcar.history.stored_files import open_store, write_batch
from iqcar.history.stored_rows import rows_of
from iqcar.pipeline import diagnose, read
from scripts.bench_ingest import write_log
from scripts.benchmarks import least_s, parser_of, peak_mb, run_again, sized, timed
from tests.support.nightly_logs import DAY_MS, FIRST_MS, nightly_logs

GROWTH = 4
DAYS, A_DAY = 365, 27
LOG_BYTES = 55_000_000
"""Size of a plain log of 10,000 tasks."""
SETTINGS = 60
"""Spark properties that an application sets."""
SLOWER = 200
"""Day from which every tenth application takes 1.5 times as long."""


def growth(count: int) -> None:
    """Measure additions of few and of many applications, and how answers grow."""
    with tempfile.TemporaryDirectory(prefix="iqcar-history-") as name:
        folder = Path(name)
        logs = sorted(nightly_logs(folder / "logs", GROWTH * count).iterdir())
        diagnose(read([logs[0]]), rules=False)  # compiles, or loads what is compiled
        alone = least_s(
            lambda: [diagnose(read([log], processes=1), rules=False) for log in logs[:count]]
        )
        few, many = str(folder / "few"), str(folder / "many")
        first = least_s(lambda: add(few, logs[:count], processes=1))
        again = least_s(lambda: add(few, logs[:count], processes=1))
        add(many, logs, processes=1)
        size = sum(file.stat().st_size for file in Path(many).rglob("*.parquet")) / len(logs)
        asked = {
            ask.__name__: least_s(lambda ask=ask: ask(many)) / least_s(lambda ask=ask: ask(few))
            for ask in (top, who, changes)
        }
    print(f"{count:,} applications, then {GROWTH * count:,}")
    print(f"addition over diagnosis       {first / alone:.2f}")
    print(f"second addition over the first {again / first:.3f}")
    print(f"bytes kept of an application  {size:,.0f}")
    for question, ratio in asked.items():
        print(f"{question}: {GROWTH} times as many applications take {ratio:.1f} times as long")


def year() -> None:
    """Measure a year of applications with 10,000 tasks each."""
    with tempfile.TemporaryDirectory(prefix="iqcar-history-") as name:
        log = Path(name, "app-year")
        tasks = write_log(log, LOG_BYTES, plain=True)
        read([log], processes=1)
        reading = least_s(lambda: read([log], processes=1))
        tables = read([log], processes=1)
        rows_of(diagnose(tables, rules=False), {}, "")  # compiles, or loads what is compiled
        seconds, found = timed(lambda: rows_of(diagnose(tables, rules=False), {str(log): 1}, ""))
        print(f"{60 * tasks / seconds / 1e6:.1f} M tasks are diagnosed in a minute of one core")
        print(f"reading the log takes {reading / seconds:.1f} × as long as that")
        store = str(Path(name, "store"))
        wrote, size = timed(lambda: _write_year(store, found))
        apps = DAYS * A_DAY
        files = sum(1 for _ in Path(store).rglob("*.parquet"))
        print(f"{apps:,} applications: {size / apps:,.0f} bytes of each, {files:,} files")
        print(f"their rows are made and written in {wrote / (apps * seconds):.3f} of a diagnosis")
        merging = least_s(lambda: store_views.merge_months(open_store(store)))
        store_views.KEPT_S = -1.0  # what was merged goes at once instead of an hour later
        store_views.merge_months(open_store(store))
        print(f"merging their files takes {merging / (apps * seconds):.4f} of a diagnosis of each")
        most_mb = 0.0
        for question in QUESTIONS:
            said = run_again(__file__, "--ask", question, store)
            print(f"{question:<22} {said['s']:.2f} s, again {said['again']:.2f} s")
            most_mb = max(most_mb, said["mb"])
        print(f"peak of all questions  {most_mb:,.0f} MB")


def _write_year(store: str, rows: dict[str, pd.DataFrame]) -> int:
    """Keep copies of one application's rows, an addition a day; return the bytes written."""
    random = np.random.default_rng(1)
    settings = pd.concat([rows["properties"].head(1)] * SETTINGS).assign(
        name=[f"spark.setting.{k}" for k in range(SETTINGS)]
    )
    rows = {**rows, "properties": pd.concat([rows["properties"], settings])}
    opened, written = open_store(store), 0
    for day in range(DAYS):
        parts: dict[str, list[pd.DataFrame]] = {name: [] for name in rows}
        for n in range(A_DAY):
            app = f"app-{day:03d}-{n:02d}"
            slower = 1.5 if n % 10 == 0 and day >= SLOWER else 1.0
            ids = rows["queries"]["query_id"]
            factor = random.uniform(0.8, 1.2, len(rows["queries"])) * slower
            for name, frame in rows.items():
                copy = frame.assign(batch=f"{day:05d}", application_id=app)
                if name == "applications":
                    copy["path"], copy["name"] = f"/logs/{app}", f"job-{n}"
                if name == "blame":
                    copy["source_application_id"] = np.where(copy["source_query_id"] != "", app, "")
                if name == "stages":
                    copy["elapsed_ms"] *= copy["query_id"].map(dict(zip(ids, factor, strict=True)))
                if name == "queries":
                    copy["fingerprint"] = [f"{n:02d}-{k}" for k in range(len(copy))]
                    copy["duration_ms"] *= factor
                if "start_ms" in copy:
                    copy["start_ms"] = FIRST_MS + DAY_MS * day + 60e3 * n
                parts[name].append(copy)
        rows_of_day = {name: pd.concat(part) for name, part in parts.items()}
        written += write_batch(opened, "yarn", f"{day:05d}", rows_of_day)
    return written


QUESTIONS: dict[str, Callable[[str], object]] = {
    "top by week": top,
    "top by month": lambda store: top(store, "month"),
    "who by query": who,
    "who by user": lambda store: who(store, "user"),
    "who by a property": lambda store: who(store, "spark.setting.7"),
    "trend of one query": lambda store: trend(store, "00-1"),
    "changes of one query": lambda store: changes(store, "00-1"),
    "changes of all": changes,
}


def ask(question: str, store: str) -> None:
    """Ask twice, and print the seconds and the peak of memory as JSON."""
    seconds = [least_s(lambda: QUESTIONS[question](store), 1, time.perf_counter) for _ in range(2)]
    print(json.dumps({"s": seconds[0], "again": seconds[1], "mb": peak_mb()}))


def main() -> int:
    """Measure, and print the figures."""
    parser = parser_of(__doc__, full="1,000 and 4,000 applications")
    parser.add_argument("--year", action="store_true", help="10,000 tasks, 27 times a day")
    parser.add_argument("--ask", nargs=2, metavar=("QUESTION", "STORE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        ask(*options.ask)
    elif options.year:
        year()
    else:
        growth(sized(options, quick=2, usual=100, full=1000))
    return 0


if __name__ == "__main__":
    sys.exit(main())
