"""Questions of the live what-if experiment, what is really done for each, and the predictions."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import iqcar
from iqcar import Diagnosis
from iqcar.apps.demo.mix import Query, heavy_text
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
    for one in asked:
        change = {"host_loss": host} if one.kind == "host" else dict(one.change)
        gone = change.get("remove", "")
        change["remove"] = [*warm_up, *([gone] if gone else [])]
        said = diagnosis.what_if(**change)
        model = diagnosis.what_if_model
        done = intervene(model.scenario, ask(**change), diagnosis._find_for).scenario
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
