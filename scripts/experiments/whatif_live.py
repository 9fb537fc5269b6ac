"""Predict what would have been, then do it: what-if questions on a live Spark.

    .venv/bin/python scripts/experiments/whatif_live.py [--rounds 2] [--cluster standalone]

Each round is one application. It warms up, runs a mix of queries, and waits: all questions are
answered from the log as it then is, and the answers are written down. Then each intervention is
done and measured, in another order in each round; before and after each the mix runs as it was.
Measured rounds are kept: a run that was ended goes on with the next; `--again` only prints.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from arms import OUT, options, save
from cluster import daemons, log_of, start_application
from compare_live import prepare
from tables import whatif_live

import iqcar
from iqcar import Diagnosis
from iqcar.apps.demo.mix import Arrival, Query, heavy_text, query_text
from iqcar.diagnosis import find_query
from iqcar.replay.loop.event_loop import run
from iqcar.replay.whatif.intervene import intervene
from iqcar.replay.whatif.outcome import scenario_shares
from iqcar.replay.whatif.question import ask
from iqcar.replay.whatif.scenario import Scenario

HOG = "etl_heavy"
STARTS_S = {HOG: 0.0, "q97": 0.3, "q51": 0.8, "q39b": 1.3}
"""Start of each query in a mix: later ones come while the hog holds the slots."""
LATER_S = 3.0
"""What the hog's start is moved by."""
WEIGHT = 3
"""Of the pool that a query gets for itself."""
PREFERRED = "q39b"
OWN_POOL = "own"
CAPPED, CAP = "cap", 1
"""Mix in which the plugin holds the hog's tasks, and how many of them may run at once."""
POOLS = f"""<?xml version="1.0"?>
<allocations>
  <pool name="default"><schedulingMode>FIFO</schedulingMode><weight>1</weight></pool>
  <pool name="{OWN_POOL}"><schedulingMode>FIFO</schedulingMode><weight>{WEIGHT}</weight></pool>
</allocations>
"""
RULES = {
    "schema_version": "1",
    "rules": [],
    "pools": [{"name": "capped", "cap": CAP, "strict": True}],
    "assignments": [{"pool": "capped", "rule_id": "CAP-1", "description": f"{HOG} in {CAPPED}"}],
}
NOTICED = 0.05
"""Change of a duration, measured, from which its sign counts."""
METHODS = {
    "model": "predicted_s",
    "nothing changes": "recorded_s",
    "slots only": "slots_s",
    "blame": "blame_s",
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One question, and the mix that answers it.

    name: of the mix.
    kind: of the question.
    change: what :func:`iqcar.replay.whatif.question.ask` takes.
    queries: of the mix.
    """

    name: str
    kind: str
    change: Mapping[str, Any] = field(default_factory=dict)
    queries: tuple[Query, ...] = ()


def base_queries(texts: Mapping[str, str]) -> tuple[Query, ...]:
    """Queries of the mix as it is recorded."""
    hog = heavy_text(1, 3.0)
    return tuple(
        Query(name, start, hog if name == HOG else texts[name]) for name, start in STARTS_S.items()
    )


def questions(base: tuple[Query, ...], cluster: str) -> list[Asked]:
    """What is asked on a cluster: ``embedded``, ``crowded`` or ``standalone``."""
    found = [Asked("again", "nothing", {}, base)]
    for gone in base:
        rest = tuple(query for query in base if query is not gone)
        found.append(Asked(f"without {gone.name}", "remove", {"remove": gone.name}, rest))
    if cluster == "crowded":
        return found
    later = tuple(
        replace(query, start_s=query.start_s + LATER_S) if query.name == HOG else query
        for query in base
    )
    found.append(Asked("later", "start", {"start": {HOG: 1e3 * LATER_S}}, later))
    pooled = tuple(
        replace(query, pool=OWN_POOL) if query.name == PREFERRED else query for query in base
    )
    found.append(Asked("pool", "pool", {"pool": {PREFERRED: WEIGHT}}, pooled))
    found.append(Asked(CAPPED, "cap", {"cap": {HOG: CAP}}, base))
    if cluster == "embedded":
        found.append(Asked("one core", "cores", {"host_cores": 1}, base))
    return found


def predict(log: Path, asked: list[Asked], host: str) -> dict[str, Any]:
    """Answer all questions from one log: by the model, by blame, and by slots alone.

    Returns ``self_check``, and ``answers``: by name of the question, by query, ``recorded_s`` and
    the predictions in seconds; ``predicted_s`` is None where the model refuses.
    """
    diagnosis = iqcar.diagnose(iqcar.read([log]))
    lost = _lost(diagnosis)
    # The mix starts when the warm-up has ended, however long that takes.
    warm_up = [name for name in diagnosis.tables.queries["name"] if name not in STARTS_S]
    answers = {}
    find = partial(find_query, diagnosis.tables.queries)
    for one in asked:
        change = {"host_loss": host} if one.kind == "host" else dict(one.change)
        gone = change.get("remove", "")
        change["remove"] = [*warm_up, *([gone] if gone else [])]
        said = diagnosis.what_if(**change)
        model = diagnosis.what_if_model
        done = intervene(model.scenario, ask(**change), find).scenario
        slots = slots_only(done)
        rows = {}
        for row, query in said.queries.iterrows():
            if query["name"] not in STARTS_S:
                continue  # of the warm-up
            known = np.isfinite(query["predicted_ms"])
            blamed = lost.get((query["name"], gone), 0.0)
            rows[query["name"]] = {
                "recorded_s": query["recorded_ms"] / 1e3,
                "predicted_s": query["predicted_ms"] / 1e3 if known else None,
                "low_s": query["low_ms"] / 1e3 if known else None,
                "high_s": query["high_ms"] / 1e3 if known else None,
                "refused": query["refused"],
                "slots_s": slots[row] / 1e3,
                "blame_s": (query["recorded_ms"] - blamed) / 1e3,
            }
        answers[one.name] = rows
    return {"self_check": said.self_check, "answers": answers}


def slots_only(scenario: Scenario) -> np.ndarray:
    """Duration of each query in ms where tasks take as long as recorded, whoever runs beside."""
    done = run(
        scenario.steps, scenario.work, scenario.slots.anywhere(), scenario_shares(scenario)
    ).done
    found = np.full(len(scenario.tables.queries), np.nan)
    found[scenario.query] = done[scenario.query_end] - done[scenario.query_start]
    return found


def _lost(diagnosis: Diagnosis) -> dict[tuple[str, str], float]:
    """Time in ms that each query lost to each other, by their names."""
    names = [str(name) for name in diagnosis.tables.queries["name"]]
    found = {}
    for row, name in enumerate(names):
        if name in STARTS_S and row in diagnosis.graph.targets:
            for part in diagnosis.graph.blame_rows(row):
                if part["kind"] == "query":
                    found[name, str(part["source_name"])] = float(part["lost_ms"])
    return found


def measured_s(log: Path, mixes: list[str]) -> dict[str, dict[str, float]]:
    """Seconds of each query, by the mix that it ran in, from the whole log."""
    queries = iqcar.read([log]).queries
    seen: dict[str, dict[str, float]] = {mix: {} for mix in mixes}
    for name, lasted in zip(queries["name"], queries["duration_ms"], strict=True):
        query, _, mix = str(name).partition(" in ")
        if mix in seen:
            seen[mix][query] = float(lasted) / 1e3
    return seen


def rows(rounds: Sequence[Mapping[str, Any]]) -> list[Row]:
    """One row per round, question and query: the predictions beside what was measured.

    ``rerun_s`` is relative to the runs as it was next before and after, so that a machine that
    others use more or less meanwhile hits both: measured · recorded / their mean.
    """
    found: list[Row] = []
    for number, one in enumerate(rounds):
        for name in one["order"]:
            asked = "again" if name.startswith("again") else name
            for query, said in one["answers"][asked].items():
                took = one["measured_s"][name].get(query)
                if took is None:
                    continue
                base = statistics.mean(_as_it_was(one, name, query, said["recorded_s"]))
                found.append(
                    {
                        "round": number,
                        "question": asked,
                        "kind": one["kinds"][asked],
                        "query": query,
                        "measured_s": took,
                        "base_s": base,
                        "rerun_s": took * said["recorded_s"] / base,
                        **said,
                    }
                )
    for row in found:
        alike = [r for r in found if (r["question"], r["query"]) == (row["question"], row["query"])]
        change = statistics.mean(r["measured_s"] / r["base_s"] for r in alike)
        row["mean_s"] = change * row["recorded_s"]
    return found


def _as_it_was(one: Mapping[str, Any], name: str, query: str, recorded_s: float) -> list[float]:
    """Seconds of a query in the runs without intervention next before and after."""
    order, measured = one["order"], one["measured_s"]
    at = order.index(name)
    same = [k for k, other in enumerate(order) if other.startswith("again") and k != at]
    before = [measured[order[k]][query] for k in same if k < at][-1:] or [recorded_s]
    after = [measured[order[k]][query] for k in same if k > at][:1]
    return [*before, *after]


def errors(found: Iterable[Row], method: str, truth: str) -> list[float]:
    """|predicted − measured| as shares of the recorded durations."""
    column = METHODS[method]
    return [
        abs(row[column] - row[truth]) / row["recorded_s"]
        for row in found
        if row["predicted_s"] is not None and np.isfinite(row[column])
    ]


def of_means(found: Sequence[Row], method: str) -> list[float]:
    """Errors of the mean over the rounds: what is left once luck is averaged out."""
    column, said = METHODS[method], [row for row in found if row["predicted_s"] is not None]
    result = []
    for key in sorted({(row["question"], row["query"]) for row in said}):
        mine = [row for row in said if (row["question"], row["query"]) == key]
        values = [
            statistics.mean(row[c] for row in mine) for c in (column, "rerun_s", "recorded_s")
        ]
        if np.isfinite(values[0]):
            result.append(abs(values[0] - values[1]) / values[2])
    return result


def score(found: Sequence[Row]) -> dict[str, Any]:
    """All figures of one kind of question."""
    known = [row for row in found if row["predicted_s"] is not None]
    scored: dict[str, Any] = {
        "pairs": len(found),
        "refused": len(found) - len(known),
        "methods": {},
    }
    removed = all(row["kind"] == "remove" for row in found)
    for method in METHODS:
        if method == "blame" and not removed:
            continue
        one, mean = errors(known, method, "rerun_s"), of_means(known, method)
        if one and mean:
            scored["methods"][method] = {
                "median": float(np.median(one)),
                "p90": float(np.quantile(one, 0.9)),
                "mean_median": float(np.median(mean)),
                "mean_p90": float(np.quantile(mean, 0.9)),
                "sign": sign(known, METHODS[method]),
            }
    if known:
        scored["change"] = float(
            np.median([abs(row["rerun_s"] / row["recorded_s"] - 1.0) for row in known])
        )
        scored["covered_one"] = covered(known, "rerun_s")
        scored["covered_mean"] = covered(known, "mean_s")
    return scored


def sign(known: Iterable[Row], column: str) -> float | None:
    """Share of the noticed changes that were predicted in their direction."""
    right = [
        (row[column] - row["recorded_s"]) * (row["rerun_s"] - row["recorded_s"]) > 0
        for row in known
        if abs(row["rerun_s"] / row["recorded_s"] - 1.0) > NOTICED
    ]
    return statistics.mean(right) if right else None


def covered(known: Sequence[Row], truth: str) -> float:
    """Share of the ranges that hold what was measured."""
    return statistics.mean(row["low_s"] <= row[truth] <= row["high_s"] for row in known)


def result(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Figures by cluster and kind of question, and every single prediction."""
    content: dict[str, Any] = {"clusters": {}}
    for cluster, rounds in found.items():
        if not rounds:
            continue
        every = rows(rounds)
        kinds = list(dict.fromkeys(row["kind"] for row in every))
        asked = [row for row in every if row["kind"] != "nothing"]
        content["clusters"][cluster] = {
            "rounds": len(rounds),
            "self_check": [one["self_check"] for one in rounds],
            "kinds": {kind: score([row for row in every if row["kind"] == kind]) for kind in kinds},
            "all": score(asked),
            "rows": [
                {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
                for row in every
            ],
        }
    return content


EXPERIMENT = "whatif_live"
HOSTS = ("127.0.0.2", "127.0.0.3")
EMBEDDED = {"embedded": "local[2]", "crowded": "local[4]"}
"""Masters; crowded has twice as many slots as processors, so that tasks share these, too."""
CLUSTERS = (*EMBEDDED, "standalone")
LONGEST_S = 400.0
MEASURED = "measured.json"
HERE = Path(__file__).resolve().parent


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
    beside = nullcontext((EMBEDDED.get(cluster, ""), []))
    with beside if cluster in EMBEDDED else daemons(HOSTS, folder, 1) as (master, nodes):
        run = Application(master, folder, tables, "rounds", base, [*order, *last])
        run.wait("warm-up")
        run.mix("base")
        time.sleep(1.0)
        log = log_of(run.folder)
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
    measured = measured_s(log_of(run.folder), names)
    if slots:
        more = Application("local[3]", folder, tables, "slots", base, slots)
        more.wait("warm-up")
        more.mix("base")
        more.mix("three slots")
        more.end()
        measured |= measured_s(log_of(more.folder), ["three slots"])
        names.append("three slots")
    kinds = {one.name: one.kind for one in [*asked, *slots, *last]}
    content = {**predictions, "measured_s": measured, "kinds": kinds, "order": names}
    (folder / MEASURED).write_text(json.dumps(content, indent=1), "utf-8")
    return content


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
    chosen = options(__doc__, "fresh", "again", clusters=CLUSTERS, rounds=2)
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
