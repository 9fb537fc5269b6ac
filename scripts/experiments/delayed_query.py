"""Delay a query step by step (iQCAR §7.4): whose reads slow another query that shares a table?

    sudo .venv/bin/python scripts/experiments/delayed_query.py [--repeats N] [--delays S ...]

On one host with a slow disk Q1 and Q2 read the same table and aggregate it; Q3 reads another table
twice and joins it with itself, and starts later step by step. Q1's blame of Q2 and Q3 by ours, by
the printed method and by overlap in time stands beside what Q1 gains without each. Mixes that lack
a query run in an application of their own, whose log the blame does not see. Needs what
:mod:`loadable_hosts` needs; a minute, and one for each delay and repeat.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from arms import OUT, REPO, RESULTS, fresh, save
from bigroots import MEASURES, ONE_TASK_PER_FILE, write_sales
from cluster import Cluster, cluster, start_application, wait_until
from live_tables import delayed_query
from loadable_hosts import Size, check_machine

import iqcar
from iqcar.apps.demo.mix import make_data
from iqcar.enums import Resource
from iqcar_lab.printed.iqcar import printed_shares

EXPERIMENT = "delayed_query"
HOST = "127.0.0.2"
SIZE = Size(cores=4.0)
"""Twice what this machine has: nobody waits for its quota of processor, only for its disk."""
FILES, SLOTS = 2, 8
"""Of each table, and so tasks of each scan; all scans of a mix together have a slot each."""
SHARED_ROWS, OTHER_ROWS = 1_600_000, 1_200_000
"""48 and 36 MB: the paper's tables have 40 and 31 GB."""
GROUP_ROWS = 50_000
"""1.5 MB: a disk that is asked for all at once serves whoever asked first."""
GROUPS = 100
WARM = 3
"""Mixes at the machine's speed, so that no class is loaded while something is measured."""
WITHOUT = ("q2", "q3")


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Delay a query, and see who is blamed for reads.")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each mix")
    parser.add_argument(
        "--delays", type=float, nargs="+", default=[0, 1, 2, 3, 5], help="of Q3, in s"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    parser.add_argument("--again", action="store_true", help="analyse the last run's log anew")
    return parser.parse_args()


@dataclass(frozen=True)
class Application:
    """A running application that is asked for one mix after the other."""

    folder: Path
    process: subprocess.Popen[bytes]

    def ask(self, name: str, delay_s: Mapping[str, float]) -> dict[str, float]:
        """Run a mix; return seconds of each query."""
        done = self.folder / "done"
        before = done.read_text().count("\n") if done.exists() else 0
        self._tell(json.dumps({"name": name, "delay_s": delay_s}))
        wait_until(
            lambda: done.exists() and done.read_text().count("\n") > before, name, [self.process]
        )
        took: dict[str, float] = json.loads(done.read_text().splitlines()[-1])
        return took

    def stop(self) -> None:
        """Let it end."""
        self._tell("stop")
        if self.process.wait(timeout=120):
            raise SystemExit(f"{EXPERIMENT}: an application failed, see {self.folder}")

    def _tell(self, line: str) -> None:
        with (self.folder / "asked").open("a") as asked:
            print(line, file=asked)


@contextmanager
def application(name: str, spark: Cluster, folder: Path) -> Iterator[Application]:
    """Start an application, and end it; its event log is in ``folder/NAME/eventlogs``."""
    own = folder / name
    own.mkdir()
    (own / "asked").touch()
    plan = {
        "name": name, "shared": str(folder / "shared"), "measures": MEASURES, "groups": GROUPS,
        "copies": [str(folder / f"copy-{number}") for number in range(2)],
        "asked": str(own / "asked"), "done": str(own / "done"),
    }  # fmt: skip
    (own / "plan.json").write_text(json.dumps(plan))
    words = [str(Path(__file__).with_name("delayed_jobs.py")), str(own / "plan.json")]
    conf = {
        **ONE_TASK_PER_FILE,
        "spark.sql.shuffle.partitions": "1",
        "spark.executor.cores": str(SLOTS),
        # Spark counts no bytes of vectored reads.
        "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
        "spark.cores.max": str(SLOTS),
    }
    process = start_application(words, spark.master, own, name, conf)
    try:
        yield Application(own, process)
    finally:
        process.terminate()
        process.wait()


def run(folder: Path, delays: list[float], repeats: int) -> dict[str, list[dict[str, float]]]:
    """Run all mixes in turn; return seconds of their queries by mix."""
    data = make_data(REPO / "build" / "demo", 0.3)
    tables = {"shared": SHARED_ROWS, "copy-0": OTHER_ROWS, "copy-1": OTHER_ROWS}
    for name, rows in tables.items():
        source = data / "store_sales.parquet"
        write_sales(folder / name, source, FILES, 0, rows, group_rows=GROUP_ROWS)
    took: dict[str, list[dict[str, float]]] = {}
    with (
        cluster([HOST], folder, SIZE, 2 * SLOTS) as spark,
        application("all", spark, folder) as every,
        application("without", spark, folder) as without,
    ):
        for number in range(WARM):
            for one in (every, without):
                one.ask(f"warm-{number}", dict.fromkeys(("q1", "q2", "q3"), 0.0))
        spark.limit()
        for number in range(repeats):
            for delay in delays:
                mix = {"q1": 0.0, "q2": 0.0, "q3": delay}
                name = f"{delay:g}-{number}"
                print(f"{EXPERIMENT}: {name}", flush=True)
                took.setdefault(f"{delay:g}", []).append(every.ask(name, mix))
                for query in WITHOUT:
                    less = {other: s for other, s in mix.items() if other != query}
                    took.setdefault(f"{delay:g} without {query}", []).append(
                        without.ask(f"{name}-without-{query}", less)
                    )
        every.stop()
        without.stop()
    return took


def blame(folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Blame of Q2 and Q3 towards Q1 by mix, method and source.

    ours: seconds of Q1's loss to IO. printed: DOR. overlap: seconds.
    """
    diagnosis = iqcar.diagnose(iqcar.read([folder / "all" / "eventlogs"]))
    queries = diagnosis.tables.queries
    sql = queries[(queries["kind"] == "sql").to_numpy()]
    row_of = dict(zip(sql["name"].astype(str), sql.index.tolist(), strict=True))
    victims = {name: row for name, row in row_of.items() if name.endswith("-q1")}
    printed = printed_shares(diagnosis.tables, diagnosis.waits, list(victims.values()))
    start, end = (queries[f"{side}_ms"].to_numpy(np.float64) for side in ("start", "end"))
    found = {}
    for name, row in victims.items():
        blamed = diagnosis.graph.blame_of(row)
        reads = blamed["by_resource"].map(lambda by: by.get(str(Resource.IO), 0.0))
        mix = name.removesuffix("-q1")
        rows = {source: row_of[f"{mix}-{source}"] for source in WITHOUT}
        found[mix] = {
            "ours": {
                source: float(reads[(blamed["source_name"] == f"{mix}-{source}").to_numpy()].sum())
                / 1e3
                for source in rows
            },
            "printed": {source: float(printed[row, other]) for source, other in rows.items()},
            "overlap": {
                source: max(0.0, min(end[row], end[other]) - max(start[row], start[other])) / 1e3
                for source, other in rows.items()
            },
        }
    return found


def make_result(took: Mapping[str, list[dict[str, float]]], folder: Path) -> list[dict[str, Any]]:
    """Q1's times, gains and medians of blame by delay."""
    blamed = blame(folder)
    rows = []
    for delay in (name for name in took if "without" not in name):
        q1 = [one["q1"] for one in took[delay]]
        less = {q: [one["q1"] for one in took[f"{delay} without {q}"]] for q in WITHOUT}
        mine = [blamed[f"{delay}-{number}"] for number in range(len(q1))]
        rows.append(
            {
                "delay_s": float(delay),
                "q1_s": q1,
                "without_s": less,
                "gain_s": {q: statistics.median(q1) - statistics.median(less[q]) for q in WITHOUT},
                **{
                    method: {q: statistics.median(one[method][q] for one in mine) for q in WITHOUT}
                    for method in ("ours", "printed", "overlap")
                },
            }
        )
    return rows


def main() -> None:
    """Run, analyse, save."""
    chosen = options()
    folder = OUT / EXPERIMENT
    times = folder / "took.json"
    if not chosen.again:
        check_machine()
        took = run(fresh(EXPERIMENT), chosen.delays, chosen.repeats)
        times.write_text(json.dumps(took))
    took = json.loads(times.read_text())
    rows = make_result(took, folder)
    meta = {"repeats": len(rows[0]["q1_s"]), "disk_bytes_per_s": SIZE.disk_bytes_per_s}
    save(EXPERIMENT, chosen.results, {**meta, "delays": rows}, delayed_query)


if __name__ == "__main__":
    main()
