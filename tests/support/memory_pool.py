"""Execution memory of a simulated executor, as Spark's ExecutionMemoryPool hands it out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class MemoryPool:
    """Of N who want memory each gets at most 1/N, and waits for 1/2N, or all that it wants.

    ``in_turn``: each gets all that it wants, in the order of asking.
    """

    capacity: float
    in_turn: bool = False
    held: dict[int, float] = field(default_factory=dict)
    line: list[Any] = field(default_factory=list)

    def ask(self, task: Any) -> None:
        """Stand in line."""
        self.line.append(task)

    def served(self) -> list[Any]:
        """Who gets memory now."""
        found = []
        for task in list(self.line):
            crowd = 1 if self.in_turn else len(self.held) + len(self.line)
            part = self.capacity / crowd
            left = self.capacity - sum(self.held.values())
            if left < min(task.memory, part if self.in_turn else part / 2) - 1e-6:
                if self.in_turn:
                    break
                continue
            task.held = self.held[id(task)] = min(task.memory, part, left)
            self.line.remove(task)
            found.append(task)
        return found

    def give_back(self, task: Any) -> None:
        """A task has ended."""
        self.held.pop(id(task), None)
