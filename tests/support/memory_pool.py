"""Execution memory of a simulated executor, as Spark's ExecutionMemoryPool hands it out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class MemoryPool:
    """Of N who want memory each gets at most 1/N, and waits for 1/2N, or all that it wants."""

    capacity: float
    held: dict[int, float] = field(default_factory=dict)
    line: list[Any] = field(default_factory=list)

    def ask(self, task: Any) -> None:
        """Stand in line."""
        self.line.append(task)

    def served(self) -> list[Any]:
        """Who gets memory now."""
        found = []
        for task in list(self.line):
            part = self.capacity / (len(self.held) + len(self.line))
            left = self.capacity - sum(self.held.values())
            if left < min(task.memory, part / 2) - 1e-6:
                continue
            task.held = self.held[id(task)] = min(task.memory, part, left)
            self.line.remove(task)
            found.append(task)
        return found

    def give_back(self, task: Any) -> None:
        """A task has ended."""
        self.held.pop(id(task), None)
