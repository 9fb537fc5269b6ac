"""Questions of the live what-if experiment, what is really done for each, and the predictions."""

from __future__ import annotations

from collections.abc import Mapping
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
