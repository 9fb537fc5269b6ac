"""Compare what is said of each step with what its queries take alone, from both kinds of logs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from tables import seconds, table

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.logs.events.task_structs import PLUGIN, TASK_RECORD

MODES = {"one": "one application", "two": "two applications"}


def analysed(folder: Path) -> dict[str, Any]:
    """Look at every step in which queries ran at once.

    Returns ``rows``: one per query, step and kind of log, with lists over the rounds.
    """
    took: dict[tuple[str, str], list[float]] = {}
    apps: dict[tuple[str, str, str], list[str]] = {}
    seconds_of: dict[tuple[str, str, str], dict[str, float]] = {}
    for file in sorted(folder.glob("*-*-?.*.json")):
        mode, step, number = re.match(r"(\w+)-(.*)-(\d+)\.", file.name).groups()  # type: ignore[union-attr]
        found = json.loads(file.read_text("utf-8"))
        if step.startswith("alone"):
            for name, of in found["took"].items():
                took.setdefault((mode, name), []).append(of)
        else:
            apps.setdefault((mode, step, number), []).append(found["app"])
            seconds_of.setdefault((mode, step, number), {}).update(found["took"])
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for (mode, step, number), ids in apps.items():
        for log in ("plain", "plugin"):
            diagnosis = iqcar.diagnose(iqcar.read(_logs(folder, ids, log)))
            for name, ran in seconds_of[mode, step, number].items():
                if (mode, name) in took:
                    row = rows.setdefault((mode, step, log, name), {
                        "mode": mode, "step": step, "log": log, "query": name,
                        "alone_s": took[mode, name], "rounds": [],
                    })  # fmt: skip
                    row["rounds"].append({"ran_s": ran, **said(diagnosis, name)})
    return {"rows": list(rows.values())}


def said(diagnosis: Diagnosis, name: str) -> dict[str, Any]:
    """What is said of one query: shares of its duration, and whom it names first."""
    queries = diagnosis.queries
    row = int(np.flatnonzero((queries["name"] == name).to_numpy())[0])
    of = queries.loc[row]
    blamed = [
        one for one in diagnosis.graph.blame_of(row).to_dict("records") if one["kind"] == "query"
    ]
    lost, low, high = (
        float(of[column] / of["duration_ms"])
        for column in ("lost_to_others_ms", "lost_low_ms", "lost_high_ms")
    )
    first = max(blamed, key=lambda one: one["lost_ms"])["source_name"] if blamed else ""
    return {"said": lost, "low": low, "high": high, "first": first}


def _logs(folder: Path, apps: list[str], log: str) -> list[Path]:
    """The applications' logs, as they are or as Spark writes them without the plugin."""
    whole = [next((folder / "eventlogs").glob(f"{app}*")) for app in apps]
    if log == "plugin":
        return whole
    (folder / "plain").mkdir(exist_ok=True)
    return [_plain(path, folder / "plain" / path.name.partition(".")[0]) for path in whole]


def _plain(path: Path, into: Path) -> Path:
    with path.open(encoding="utf-8") as lines, into.open("w", encoding="utf-8") as kept:
        for line in lines:
            event = json.loads(line)
            if event["Event"].startswith(PLUGIN):
                continue
            for part, name in (("Task Info", "Accumulables"), ("Stage Info", "Accumulables")):
                of = event.get(part, {})
                of[name] = [one for one in of.get(name, ()) if one.get("Name") != TASK_RECORD]
            settings = event.get("Spark Properties", {})
            for name in ("spark.plugins", "spark.extraListeners", "spark.jars"):
                settings.pop(name, None)
            kept.write(json.dumps(event) + "\n")
    return into


def steady_live(result: dict[str, Any]) -> str:
    """The table: what was lost, and what was said of it."""
    rows = []
    for of in result["rows"]:
        alone, rounds = median(of["alone_s"]), of["rounds"]
        ran = [one["ran_s"] for one in rounds]
        said_of = " ".join(
            f"{100 * one['said']:.0f} ({100 * one['low']:.0f} … {100 * one['high']:.0f})"
            for one in rounds
        )
        true = " ".join(f"{100 * (1 - alone / s):.0f}" for s in ran)
        first = ", ".join(sorted({one["first"] for one in rounds}))
        rows.append(
            [
                MODES[of["mode"]],
                of["step"],
                of["log"],
                of["query"],
                seconds(of["alone_s"]),
                seconds(ran),
                true,
                said_of,
                first,
            ]
        )
    head = ("in", "beside", "log", "query", "alone", "ran", "lost, %", "said, %", "named first")
    return table(head, rows)
