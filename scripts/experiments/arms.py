"""Run the arms of an experiment in alternation, because machines are noisy, and store results."""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iqcar.apps.demo.mix import Arrival, Query, make_data, queries_of
from iqcar.apps.demo.run_mix import Run, run_mix, slots_here

REPO = Path(__file__).resolve().parents[2]
OUT = REPO / "build" / "experiments"
RESULTS = REPO / "docs" / "evaluation"

SCHEDULE = (
    Arrival("etl_heavy", 0.0),
    Arrival("q67", 3.0, 67),
    Arrival("q97", 4.0, 97),
    Arrival("q39b", 6.0, 39),
    Arrival("q51", 8.0, 51),
    Arrival("q75", 9.0, 75),
    Arrival("q88", 10.0, 88),
)
"""The BASE run: a heavy hitter, and six TPC-DS queries that arrive while it holds the slots."""


@dataclass(frozen=True)
class Arm:
    """One way to run the mix."""

    name: str
    queries: Sequence[Query]
    conf: Mapping[str, str] = field(default_factory=dict)


FLAGS = {
    "again": "run nothing, look at what is there",
    "fresh": "forget what was measured before",
    "quick": "the smallest run of all that is run",
    "add": "keep the runs that are there, add to them",
}
NUMBERS = {
    "repeats": "runs of each arm",
    "rounds": "applications of each arm on each cluster",
    "runs": "runs a side, or in all",
    "scale": "TPC-DS scale factor",
    "seed": "which hosts, in which order",
}


def options(
    module: str | None,
    *flags: str,
    clusters: Sequence[str] = (),
    arms: Sequence[str] = (),
    **numbers: float,
) -> argparse.Namespace:
    """Read the options of an experiment, whose docstring says what it does.

    flags: names of :data:`FLAGS`.
    clusters, arms: what can be chosen.
    numbers: defaults, by names of :data:`NUMBERS`.
    """
    parser = argparse.ArgumentParser(description=(module or "").splitlines()[0])
    for name in flags:
        parser.add_argument(f"--{name}", action="store_true", help=FLAGS[name])
    for name, usual in numbers.items():
        parser.add_argument(f"--{name}", type=type(usual), default=usual, help=NUMBERS[name])
    if clusters:
        parser.add_argument("--cluster", choices=clusters, action="append")
    if arms:
        parser.add_argument("--arms", choices=arms, nargs="+", default=arms)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    return parser.parse_args()


def base_queries(scale: float) -> tuple[Path, list[Query]]:
    """Make the data; return their folder and the BASE run's queries."""
    data = make_data(REPO / "build" / "demo", scale)
    tpcds = json.loads((data / "queries.json").read_text("utf-8"))
    return data, queries_of(SCHEDULE, tpcds, slots_here(), scale)


def run_once(experiment: str, arm: Arm, data: Path, number: int) -> Run:
    """Run one arm."""
    name = f"{arm.name}-{number}"
    run = run_mix(
        arm.queries, data, OUT / experiment, name=name, conf=arm.conf, say=lambda line: None
    )
    say(experiment, f"{name}: {run.total_s:.1f} s over all queries")
    return run


def alternate(
    experiment: str, arms: Sequence[Arm], data: Path, repeats: int
) -> dict[str, list[Run]]:
    """Run each arm as often as told, every round in another order."""
    runs: dict[str, list[Run]] = {arm.name: [] for arm in arms}
    for number in range(repeats):
        turn = number % len(arms)
        for arm in [*arms[turn:], *arms[:turn]]:
            runs[arm.name].append(run_once(experiment, arm, data, number + 1))
    return runs


def fresh(experiment: str) -> Path:
    """Empty the experiment's folder."""
    folder = OUT / experiment
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def save(
    experiment: str, folder: Path, result: dict[str, object], show: Callable[..., str]
) -> None:
    """Write the result as JSON and print it as a table."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"processors": os.cpu_count(), "slots": slots_here(), **result}
    target = folder / f"{experiment}.json"
    target.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    print(f"\n{show(content)}\nWrote {target}")


def say(experiment: str, line: str) -> None:
    """Tell what happens."""
    print(f"{experiment}: {line}", flush=True)
