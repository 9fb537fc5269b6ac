"""Pieces that the profile of a task cuts its run into, and what a task did in each of them."""

from __future__ import annotations

import math
from typing import Any

from iqcar.enums import Request
from tests.support.naive_slots import NaiveSlots


def known(value: float) -> float:
    return value if math.isfinite(value) else 0.0


class NaivePieces(NaiveSlots):
    """Pieces of every task: (begin, end, what its profile says of them; None = no interval)."""

    waits: list[dict[str, Any]]
    records: list[dict[str, Any]]
    intervals: dict[int, list[dict[str, Any]]]
    pieces: list[list[tuple[float, float, dict[str, float] | None]]]

    def read(self, i: int) -> float:
        """Input bytes; 16 a row where the stage's tasks counted less than half a byte a row."""
        task = self.tasks[i]
        alike = [one for one in self.tasks if one["stage"] == task["stage"]]
        size, rows = (
            sum(known(one[name]) for one in alike) for name in ("input_bytes", "input_records")
        )
        counted = float(task["input_bytes"])
        if size >= rows / 2:
            return counted
        mine = 16.0 * float(task["input_records"])
        return mine if math.isnan(counted) or mine > counted else counted

    def cut(self, i: int) -> list[tuple[float, float, dict[str, float] | None]]:
        task, rows = self.tasks[i], self.intervals.get(i, [])
        launch, finish = task["launch_ms"], task["finish_ms"]
        if not rows or not task["T"] > 0:
            return [(launch, finish, None)]
        first, last = rows[0]["start_ms"], rows[-1]["end_ms"]
        begin = min(max(first, launch), max(finish - (last - first), launch))
        cuts: list[tuple[float, float, dict[str, float] | None]] = [(launch, begin, None)]
        move = begin - first
        cuts += [(row["start_ms"] + move, row["end_ms"] + move, row) for row in rows]
        cuts.append((cuts[-1][1], finish, None))
        return [(b, e, row) for b, e, row in cuts if e > b]

    def part(self, i: int, piece: int, column: str) -> float:
        """The piece's part of what the task did in all: by its profile, else by time."""
        pieces = self.pieces[i]
        if len(pieces) == 1 and pieces[0][2] is None:
            return 1.0
        done = [known(row.get(column, 0.0)) if row else 0.0 for _, _, row in pieces]
        if sum(done) > 0:
            return done[piece] / sum(done)
        return (pieces[piece][1] - pieces[piece][0]) / self.tasks[i]["T"]

    def held(self, i: int, piece: int) -> float:
        """Bytes of execution memory: by the profile, else by the record, else by Spark's metric."""
        task, rows = self.tasks[i], [row for _, _, row in self.pieces[i]]
        levels = [math.nan if row is None else row["held_bytes"] for row in rows]
        if any(math.isfinite(level) for level in levels):
            return known(levels[piece])
        for record in self.records:
            if record["task"] == i and math.isfinite(record["mean_held_bytes"]):
                part = min(known(record["wall_ms"]) / max(task["T"], 1.0), 1.0)
                return float(record["mean_held_bytes"] * part)
        waited = max(known(self.waits[i]["execution_memory_ms"]), 0.0)
        had = 1.0 - min(waited / task["T"], 1.0) if task["T"] > 0 else 1.0
        return known(task["peak_memory_bytes"]) * had

    def most_memory(self, executor: int) -> float:
        """The most ever held at once; it begins where some piece begins."""
        mine = [
            (begin, end, self.held(i, piece))
            for i, task in enumerate(self.tasks)
            if task["executor"] == executor and task["T"] > 0
            for piece, (begin, end, _) in enumerate(self.pieces[i])
        ]
        return max(
            (sum(held for since, until, held in mine if since <= at < until) for at, _, _ in mine),
            default=0.0,
        )

    def emphasis(self, i: int, piece: int, r: Request) -> float:
        """Part of the task's wait that lies in the piece, over the piece's part of its time."""
        begin, end, _ = self.pieces[i][piece]
        life = self.tasks[i]["T"]
        return self.part(i, piece, f"{r}_ms") / ((end - begin) / life) if end > begin else 1.0
