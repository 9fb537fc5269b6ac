"""Wasted work straight from its definitions, one task attempt at a time."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from iqcar.tables import Tables

PASSIVE = ("speculation", "cancelled", "not-needed")


class NaiveWaste:
    """Wasted attempts, and what they cost each query, from tables whose stages run whole."""

    def __init__(self, tables: Tables, shares: list[float]) -> None:
        self.tables = tables
        self.shares = shares
        self.stages = tables.stages.to_dict("records")
        self.tasks = [
            {**task, "row": row} for row, task in enumerate(tables.tasks.to_dict("records"))
        ]
        self.done = [
            task for task in self.tasks if task["status"] in ("success", "failed", "killed")
        ]
        self.work = self._works()
        for task in self.tasks:
            known = task["stage"] >= 0 and task["index"] >= 0
            task["work"] = self.work[task["stage"]] if task["stage"] >= 0 else None
            task["part"] = (task["work"], task["index"]) if known else ("own", task["row"])

    def _works(self) -> list[Any]:
        """Name the work of each stage; lost shuffle output is the same work written again."""
        works = [(stage["app"], stage["stage_id"]) for stage in self.stages]
        wrote = {task["stage"] for task in self.tasks if task["shuffle_write_bytes"] > 0}
        order = sorted(wrote - {-1}, key=lambda row: (self.stages[row]["submission_ms"], row))
        for row in order:
            stage = self.stages[row]
            same = [
                other
                for other in order
                if (self.stages[other]["app"], self.stages[other]["rdd"])
                == (stage["app"], stage["rdd"])
            ]
            first = same[0]
            if stage["rdd"] < 0 or works[row] == works[first] or not self._begins(row):
                continue
            if self._all_lost(row, same[: same.index(row)]):
                mine = works[row]
                works = [works[first] if work == mine else work for work in works]
        return works

    def _begins(self, row: int) -> bool:
        """Whether no earlier row has the same stage id."""
        stage = self.stages[row]
        return not any(
            (other["app"], other["stage_id"]) == (stage["app"], stage["stage_id"])
            for other in self.stages[:row]
        )

    def _all_lost(self, row: int, before: list[int]) -> bool:
        mine = [task for task in self.tasks if task["stage"] == row]
        begun = min(task["launch_ms"] for task in mine)
        for task in mine:
            writers = [
                other
                for stage in before
                for other in self.tasks
                if (other["stage"], other["index"], other["status"])
                == (stage, task["index"], "success")
            ]
            if not writers:
                return False
            last = max(
                writers,
                key=lambda one: (before.index(one["stage"]), one["finish_ms"], one["task_id"]),
            )
            if not self._lost_at(last["executor"]) <= begun + 1000:
                return False
        return True

    def _lost_at(self, executor: int) -> float:
        if executor < 0:
            return math.inf
        removed = self.tables.executors["removed_ms"][executor]
        failures = self.tables.task_failures
        fetches = [
            self.tasks[task]["finish_ms"]
            for task, source in zip(failures["task"], failures["source"], strict=True)
            if source == executor
        ]
        return min([*fetches, math.inf if math.isnan(removed) else removed])

    def first_of(self, part: Any) -> int:
        """Row of the first success of a partition, −1 if there is none."""
        found = [t for t in self.done if t["part"] == part and t["status"] == "success"]
        first = min(
            found, key=lambda t: (t["finish_ms"], t["launch_ms"], t["task_id"]), default=None
        )
        return -1 if first is None else int(first["row"])

    def wasted(self) -> list[int]:
        """Rows of the attempts that were of no use."""
        return [task["row"] for task in self.done if self.first_of(task["part"]) != task["row"]]

    def delays(self, causes: dict[int, str]) -> dict[tuple[int, str], float]:
        """Elapsed ms by query and cause; the causes of wasted rows are given."""
        groups = defaultdict(list)
        for task in self.done:
            if task["query"] >= 0 and task["work"] is not None:
                groups[task["query"], task["work"]].append(task)
        cost: dict[tuple[int, str], float] = defaultdict(float)
        for (query, _), tasks in groups.items():
            found = {causes[task["row"]] for task in tasks if task["row"] in causes}
            if not found:
                continue
            stages = {task["stage"] for task in tasks}
            clock, length = self._clock(query, stages)
            at = {
                task["row"]: (clock(task["launch_ms"]), clock(task["finish_ms"])) for task in tasks
            }
            together = self._delay(tasks, at, causes, found)
            parts = {cause: self._delay(tasks, at, causes, {cause}) for cause in found}
            if sum(parts.values()) <= 0:
                parts = {
                    cause: sum(
                        at[t["row"]][1] - at[t["row"]][0]
                        for t in tasks
                        if causes.get(t["row"]) == cause
                    )
                    for cause in found
                }
            scale = sum(self.shares[stage] for stage in stages) / length if length > 0 else 0.0
            whole = sum(parts.values())
            for cause, part in parts.items():
                cost[query, cause] += together * scale * part / whole if whole > 0 else 0.0
        return cost

    def _clock(self, query: int, stages: set[int]) -> tuple[Callable[[float], float], float]:
        """A clock that runs while any of the stages does, and its last reading."""
        row = self.tables.queries.to_dict("records")[query]
        spans = []
        for number in stages:
            stage = self.stages[number]
            start = max(stage["submission_ms"], row["start_ms"])
            end = min(stage["completion_ms"], row["end_ms"])
            if start < end:
                spans.append((start, end))

        edges = sorted({edge for span in spans for edge in span})
        runs = [
            (left, right)
            for left, right in pairwise(edges)
            if any(start <= left and right <= end for start, end in spans)
        ]

        def read(when: float) -> float:
            return sum(max(min(when, right) - left, 0.0) for left, right in runs)

        return read, read(math.inf)

    def _pauses(
        self, at: dict[int, tuple[float, float]], causes: dict[int, str], removed: set[str]
    ) -> list[tuple[float, float]]:
        """When nothing runs after an attempt ended with its executor, up to the next launch."""
        lost = removed & {"executor-lost", "preempted"}
        ends = {end for row, (_, end) in at.items() if causes.get(row) in lost}
        found = []
        for end in ends:
            later = [launch for launch, _ in at.values() if launch > end]
            runs = any(launch <= end < finish for launch, finish in at.values())
            if later and not runs:
                found.append((end, min(later)))
        return found

    def _delay(
        self,
        tasks: list[dict[str, Any]],
        at: dict[int, tuple[float, float]],
        causes: dict[int, str],
        removed: set[str],
    ) -> float:
        """How much earlier a stage would have ended without the attempts of some causes."""
        begin = min(launch for launch, _ in at.values())
        saved = [span for row, span in at.items() if causes.get(row) in removed]
        needed: list[tuple[float, float]] = []

        def held(spans: list[tuple[float, float]], until: float) -> float:
            return sum(max(min(end, until) - start, 0.0) for start, end in spans)

        pauses = self._pauses(at, causes, removed)

        def earlier(when: float) -> float:
            every = held(list(at.values()), when)
            free = max(held(saved, when) - held(needed, when), 0.0)
            ran = when - begin - held(pauses, when)
            return begin + ran * (1 - (min(free / every, 1.0) if every > 0 else 0.0))

        here = {task["part"] for task in tasks if task["row"] not in causes}
        took = [at[t["row"]][1] - at[t["row"]][0] for t in tasks if t["row"] not in causes]
        once, copies = [], []
        for part in {task["part"] for task in tasks}:
            mine = [task for task in tasks if task["part"] == part]
            useful = [t for t in mine if t["row"] not in causes]
            elsewhere = self.first_of(part) >= 0 and part not in here
            tries = [
                t
                for t in mine
                if causes.get(t["row"]) in removed and causes[t["row"]] not in PASSIVE
            ]
            if useful or (tries and not elsewhere):
                begun = min(at[t["row"]][0] for t in [*useful, *tries])
                if useful:
                    (row,) = (t["row"] for t in useful)
                    lasts = at[row][1] - at[row][0]
                elif took:
                    lasts = statistics.median(took)
                else:
                    spans = (at[t["row"]] for t in tries)
                    _, lasts = min((start, start - end) for start, end in spans)
                    lasts = -lasts
                chosen = any(t["speculative"] and at[t["row"]][0] == begun for t in useful)
                once.append((begun, begun + lasts))
                copies.append(chosen)
                if not useful:
                    needed.append(once[-1])
                elif begun < at[row][0]:
                    needed.append(once[-1])
                    saved.append(at[row])
        ends = [
            end if copy else earlier(begun) + end - begun
            for (begun, end), copy in zip(once, copies, strict=True)
        ]
        waited_for = [t["row"] for t in tasks if causes.get(t["row"]) not in PASSIVE]
        stay = [row for row in waited_for if row in causes and causes[row] not in removed]
        ends += [earlier(at[row][0]) + at[row][1] - at[row][0] for row in stay]
        ended = max([0.0, *(at[row][1] for row in waited_for)])
        return max(ended - max([0.0, *ends]), 0.0)
