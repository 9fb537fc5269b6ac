"""Predict what would have been, then do it: what-if questions on a live Spark.

    .venv/bin/python scripts/experiments/whatif_live.py [--rounds 2] [--cluster standalone]

Each round is one application. It warms up, runs a mix of queries, and waits: all questions are
answered from the log as it then is, and the answers are written down. Then each intervention is
done and measured, in another order in each round; before and after each the mix runs as it was.
Measured rounds are kept: a run that was ended goes on with the next; `--again` only prints.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from arms import OUT, RESULTS, save
from cluster import MASTER, environment, free_port, spark_home, start_application, wait_until
from compare_live_runs import prepare
from live_tables import whatif_live
from whatif_live_asked import (
    POOLS,
    RULES,
    Asked,
    base_queries,
    measured_s,
    predict,
    questions,
    result,
)

from iqcar.apps.demo.mix import Arrival, Query, query_text

EXPERIMENT = "whatif_live"
HOSTS = ("127.0.0.2", "127.0.0.3")
EMBEDDED = {"embedded": "local[2]", "crowded": "local[4]"}
"""Masters; crowded has twice as many slots as processors, so that tasks share these, too."""
CLUSTERS = (*EMBEDDED, "standalone")
LONGEST_S = 400.0
MEASURED = "measured.json"
HERE = Path(__file__).resolve().parent


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Predict, intervene, measure.")
    parser.add_argument("--rounds", type=int, default=2, help="applications on each cluster")
    parser.add_argument("--cluster", choices=CLUSTERS, action="append")
    parser.add_argument("--fresh", action="store_true", help="forget rounds measured before")
    parser.add_argument("--again", action="store_true", help="run nothing, score what is there")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    return parser.parse_args()


def texts() -> tuple[dict[str, Any], dict[str, str]]:
    """Tables, and the SQL of the TPC-DS queries."""
    tables = prepare(OUT / "compare_live_tables")["plain"]
    data = Path(tables["item"][0]).parent
    stored = json.loads((data / "queries.json").read_text("utf-8"))
    chosen = {"q97": 97, "q51": 51, "q39b": 39}
    return tables, {n: query_text(Arrival(n, 0.0, k), stored) for n, k in chosen.items()}


def named(queries: tuple[Query, ...], mix: str) -> list[dict[str, Any]]:
    """The queries of a mix, as in the plan; those that are recorded keep their names."""
    label = {"base": ""}.get(mix, f" in {mix}")
    return [asdict(replace(query, name=query.name + label)) for query in queries]


def again(first: Asked, after: Asked) -> Asked:
    """The mix as it was, once more."""
    return replace(first, name=f"{first.name} after {after.name}")


@contextmanager
def workers(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a standalone master, and a worker with one slot on each host; stop them at the end."""
    deploy, port = "org.apache.spark.deploy", free_port()
    url, log = f"spark://{MASTER}:{port}", folder / "daemons.log"
    start = str(spark_home() / "bin" / "spark-class")
    command = [f"{deploy}.master.Master", "--host", MASTER, "--port", str(port)]
    commands = [(MASTER, [*command, "--webui-port", "0"])]
    for host in HOSTS:
        command = [f"{deploy}.worker.Worker", "--host", host, "--cores", "1", "--memory", "1g"]
        work = str(folder / "work" / host)
        commands.append((host, [*command, "--webui-port", "0", "--work-dir", work, url]))
    running: list[subprocess.Popen[bytes]] = []
    try:
        with log.open("ab") as out:
            for host, words in commands:
                env = environment(host) | {"SPARK_LOCAL_DIRS": str(folder / "local" / host)}
                running.append(
                    subprocess.Popen([start, *words], env=env, stdout=out, stderr=out, cwd=folder)
                )
        wait_until(
            lambda: log.read_text("utf-8", "replace").count("Registering worker") == len(HOSTS),
            "workers",
            running,
        )
        yield url, running[1:]
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait()


def one_round(cluster: str, number: int, folder: Path) -> dict[str, Any]:
    """Run one application: base, predictions, interventions; return both."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tables, sql = texts()
    base = base_queries(sql)
    asked = questions(base, cluster)
    first, rest = asked[0], asked[1:]
    turn = number * len(rest) // 2 % len(rest)
    order = [one for each in [*rest[turn:], *rest[:turn]] for one in (each, again(first, each))]
    last = []
    if cluster == "standalone":
        last = [Asked("one host", "host", {}, base)]
    slots = []
    if cluster == "embedded":
        slots = [Asked("three slots", "slots", {"slots": 1}, base)]
    for host in HOSTS:
        (folder / "local" / host).mkdir(parents=True)
    with daemons(cluster, folder) as (master, nodes):
        run = Application(master, folder, tables, "rounds", base, [*order, *last])
        run.wait("warm-up")
        run.mix("base")
        time.sleep(1.0)
        log = run.log()
        seen = folder / "seen" / log.name
        seen.parent.mkdir()
        shutil.copyfile(log, seen)
        predictions = predict(seen, [*asked, *slots, *last], HOSTS[-1])
        (folder / "predictions.json").write_text(json.dumps(predictions, indent=1), "utf-8")
        for one in [*order, *last]:
            if one.kind == "cores":
                run.pin("0")
            if one.kind == "host":
                nodes[-1].terminate()
                nodes[-1].wait()
                time.sleep(3.0)
            run.mix(one.name)
            if one.kind == "cores":
                run.pin(f"0-{(os.cpu_count() or 2) - 1}")
        run.end()
    names = [one.name for one in [*order, *last]]
    measured = measured_s(run.log(), names)
    if slots:
        more = Application("local[3]", folder, tables, "slots", base, slots)
        more.wait("warm-up")
        more.mix("base")
        more.mix("three slots")
        more.end()
        measured |= measured_s(more.log(), ["three slots"])
        names.append("three slots")
    kinds = {one.name: one.kind for one in [*asked, *slots, *last]}
    content = {**predictions, "measured_s": measured, "kinds": kinds, "order": names}
    (folder / MEASURED).write_text(json.dumps(content, indent=1), "utf-8")
    return content


@contextmanager
def daemons(cluster: str, folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The master's address and the processes of the workers."""
    if cluster in EMBEDDED:
        yield EMBEDDED[cluster], []
    else:
        with workers(folder) as started:
            yield started


class Application:
    """A running application that runs a mix when told to."""

    def __init__(
        self,
        master: str,
        folder: Path,
        tables: dict[str, Any],
        name: str,
        base: tuple[Query, ...],
        asked: list[Asked],
    ) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        pools = self.folder / "pools.xml"
        pools.write_text(POOLS, "utf-8")
        rules = self.folder / "rules.json"
        rules.write_text(json.dumps(RULES), "utf-8")
        mixes = [("warm-up", base), ("base", base), *((one.name, one.queries) for one in asked)]
        plan = {
            "folder": str(self.folder),
            "tables": tables,
            "mixes": [{"name": mix, "queries": named(queries, mix)} for mix, queries in mixes],
        }
        file = self.folder / "plan.json"
        file.write_text(json.dumps(plan, indent=1), "utf-8")
        self.process = start_application(
            [str(HERE / "whatif_live_jobs.py"), str(file)],
            master,
            self.folder,
            name,
            {
                "spark.app.name": EXPERIMENT,
                "spark.eventLog.compress": "false",
                "spark.scheduler.mode": "FAIR",
                "spark.scheduler.allocation.file": pools.as_uri(),
                "spark.iqcar.rules": str(rules),
                "spark.sql.shuffle.partitions": "8",
                "spark.executor.memory": "768m",
                "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            },
        )

    def mix(self, name: str) -> None:
        """Run a mix and wait for its end."""
        (self.folder / f"{name}.go").touch()
        self.wait(name)

    def wait(self, name: str) -> None:
        """Wait for the end of a mix."""
        done, began = self.folder / f"{name}.done", time.monotonic()
        while not done.exists():
            if self.process.poll() is not None or time.monotonic() - began > LONGEST_S:
                self.process.kill()
                raise SystemExit(f"{EXPERIMENT}: {name} did not end, see {self.folder}")
            time.sleep(0.1)
        if failed := done.read_text("utf-8"):
            self.process.kill()
            raise SystemExit(f"{EXPERIMENT}: {name}: {failed}")
        print(f"{EXPERIMENT}: {name}: {time.monotonic() - began:.1f} s", flush=True)

    def log(self) -> Path:
        """Its event log."""
        (found,) = (self.folder / "eventlogs").glob("[al]*")
        return found

    def pin(self, processors: str) -> None:
        """Let the application's processes use these processors only."""
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)],
            capture_output=True, text=True, check=False,
        ).stdout.split()  # fmt: skip
        for process in [str(self.process.pid), *children]:
            subprocess.run(["taskset", "-a", "-p", "-c", processors, process], check=True,
                           capture_output=True)  # fmt: skip

    def end(self) -> None:
        """Wait until the application has ended."""
        try:
            if self.process.wait(timeout=LONGEST_S):
                raise SystemExit(f"{EXPERIMENT}: the application failed, see {self.folder}")
        finally:
            self.process.kill()
            self.process.wait()


def main() -> None:
    """Run the rounds that are wanted; score all that are there."""
    chosen = options()
    out = OUT / EXPERIMENT
    for cluster in () if chosen.again else chosen.cluster or CLUSTERS:
        if chosen.fresh:
            shutil.rmtree(out / cluster, ignore_errors=True)
        for number in range(chosen.rounds):
            if not (out / cluster / str(number) / MEASURED).exists():
                one_round(cluster, number, out / cluster / str(number))
    found = {
        cluster: [
            json.loads(file.read_text("utf-8"))
            for file in sorted(out.glob(f"{cluster}/*/{MEASURED}"))
        ]
        for cluster in CLUSTERS
    }
    save(EXPERIMENT, chosen.results, result(found), whatif_live)


if __name__ == "__main__":
    main()
