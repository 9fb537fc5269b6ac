"""Two tenants of a Spark Thrift server, through JDBC: how long one waits, without and with a cap.

    .venv/bin/python scripts/experiments/thrift_tenants.py [--runs 20]

The hog and the victim are sessions of `beeline`, and the seconds are those that it tells its user.
The hog runs a statement of long tasks again and again, on every slot. The victim runs a short one:
alone, beside the hog, under a cap of half the slots that is written while both run, and after the
cap was taken back. Tasks sleep, so that slots are all that is short.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from arms import RESULTS, fresh, save
from cluster import MASTER, environment, free_port, spark_home
from live_rules_jobs import sleeping
from live_tables import thrift_tenants
from thrift_server import Session, thrift_server

import iqcar
from iqcar.logs.attach.spark_conf import SparkConf, listener_jar
from iqcar.model.demand.host_samples import outside_load
from iqcar.rules.compile_pools import dump_rules
from iqcar.rules.recorded_setup import Recorded
from iqcar.rules.rule import Assignment, Pool, PoolPlan
from iqcar.tables import texts

EXPERIMENT = "thrift_tenants"
SLOTS, CAP_SHARE = 4, 0.5
HOG, VICTIM = sleeping(24, 1200), sleeping(2, 100).replace("count(", "max(")
"""Of different plans: a rule does not tell statements apart that differ in constants alone."""
PAUSE_S = 0.5
ACTS_S = 3.0
"""A change of the rules acts within two seconds; what is measured begins after that."""


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Two tenants of a Thrift server, and a cap.")
    parser.add_argument("--runs", type=int, default=20, help="statements of the victim per arm")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    return parser.parse_args()


@contextmanager
def busy(hog: Session, took: list[float]) -> Iterator[None]:
    """Keep the hog's session busy; note how long its statements take."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            took.append(hog.ask(HOG).seconds)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def waits(victim: Session, runs: int) -> list[float]:
    """Seconds of the victim's statements, one after the other."""
    found = []
    for _ in range(runs):
        found.append(victim.ask(VICTIM).seconds)
        time.sleep(PAUSE_S)
    return found


def write(rules: Path, plan: PoolPlan) -> None:
    """Replace the rules file in one step."""
    beside = rules.with_suffix(".new")
    beside.write_bytes(dump_rules((), plan, Recorded()))
    beside.replace(rules)
    time.sleep(ACTS_S)


def cap_for(log: Path) -> PoolPlan:
    """A cap on the statement that the log knows by the hog's text."""
    queries = iqcar.read([log]).queries
    hog = next(
        found
        for found, name in zip(texts(queries, "fingerprint"), texts(queries, "name"), strict=True)
        if name == HOG
    )
    return PoolPlan(
        (Pool("hog", cap_share=CAP_SHARE, strict=True),),
        (Assignment("hog", "CAP-1", fingerprint=hog),),
    )


def measure(folder: Path, runs: int) -> dict[str, Any]:
    """Run all arms on one server."""
    rules, logs = folder / "rules.json", folder / "eventlogs"
    logs.mkdir()
    write(rules, PoolPlan())
    settings = {
        **SparkConf(jar=str(listener_jar()), log_dir=str(logs)).settings(),
        "spark.master": f"local[{SLOTS}]",
        "spark.iqcar.rules": str(rules),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
    }
    env = {**environment(MASTER), "SPARK_DAEMON_MEMORY": "1g"}
    victim_s: dict[str, list[float]] = {}
    hog_s: dict[str, list[float]] = {}
    with (
        thrift_server(spark_home(), free_port(), folder, env, settings) as server,
        server.session("hog") as hog,
        server.session("victim") as victim,
    ):
        hog.ask(HOG)
        waits(victim, 3)
        victim_s["alone"] = waits(victim, runs)
        (log,) = logs.glob("[!.]*")
        plans = {"no rules": None, "cap": cap_for(log), "cap taken back": PoolPlan()}
        for arm, plan in plans.items():
            hog_s[arm] = []
            with busy(hog, hog_s[arm]):
                if plan is None:
                    time.sleep(ACTS_S)
                else:
                    write(rules, plan)
                victim_s[arm] = waits(victim, runs)
    (log,) = logs.glob("[!.]*")
    return {
        "slots": SLOTS,
        "cap_share": CAP_SHARE,
        "victim_s": victim_s,
        "hog_s": hog_s,
        "outside_load": outside_load(iqcar.read([log])).share,
        "medians_s": {arm: float(np.median(took)) for arm, took in victim_s.items()},
    }


def main() -> None:
    """Run once; print the table."""
    chosen = options()
    save(EXPERIMENT, chosen.results, measure(fresh(EXPERIMENT), chosen.runs), thrift_tenants)


if __name__ == "__main__":
    main()
