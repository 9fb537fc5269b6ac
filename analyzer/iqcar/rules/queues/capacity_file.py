"""Reads and edits ``capacity-scheduler.xml``, the queues of YARN's CapacityScheduler.

Percentages only: capacities as weights (``2w``) or absolute resources (``[memory=…]``) are refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from iqcar.base.files.xml_text import Edit, Element, append, apply_edits, parse_xml, set_text
from iqcar.errors import IqcarError
from iqcar.rules.queues.queue_setup import LeafQueue, QueueSetup

PREFIX = "yarn.scheduler.capacity."
ROOT = "root"
ADVICE = "give the file that the ResourceManager reads (yarn.scheduler.capacity.* properties)"
MAX_QUEUES = 1_000
SUM_ERROR = 1e-3
"""Percent by which the capacities of a parent's queues may miss 100: YARN allows as much."""
PREEMPTS_AFTER_MS = 18_000.0
"""YARN's preemption looks every 3 s, and kills what was not given back within 15 s more
(ProportionalCapacityPreemptionPolicy: monitoring_interval, max_wait_before_kill)."""


@dataclass(frozen=True)
class CapacityFile:
    """A file, its properties, and its queues from the root.

    children: names of the queues in each parent, by its path.
    """

    content: bytes
    where: str
    root: Element
    properties: Mapping[str, str]
    children: Mapping[str, tuple[str, ...]]

    @property
    def leaves(self) -> list[str]:
        """Paths of the queues that run applications."""
        paths = [f"{parent}.{name}" for parent, names in self.children.items() for name in names]
        return [path for path in paths if path not in self.children]

    def number(self, path: str, name: str, default: float) -> float:
        """Return a number that a property of a queue holds; raises IqcarError if it is none."""
        key = f"{PREFIX}{path}.{name}"
        text = self.properties.get(key, "").strip()
        if not text:
            return default
        try:
            value = float(text.removesuffix("%"))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise IqcarError(f"{key} is {text[:40]!r}, not a percentage", self.where, ADVICE)
        return value

    def capacity(self, path: str) -> float:
        """Percent of its parent that a queue is guaranteed."""
        return self.number(path, "capacity", 0.0) if path != ROOT else 100.0

    def maximum(self, path: str) -> float:
        """Percent of its parent that a queue gets at most; −1 and nothing mean all of it."""
        value = self.number(path, "maximum-capacity", 100.0) if path != ROOT else 100.0
        return value if value >= 0 else 100.0

    def setup(self, preempts: bool = False) -> QueueSetup:
        """Return the queues as the scheduler sees them.

        preempts: Whether the ResourceManager takes executors back
            (``yarn.resourcemanager.scheduler.monitor.enable``, which stands in another file).
        """
        after = PREEMPTS_AFTER_MS if preempts else math.inf
        return QueueSetup(tuple(map(self._leaf, self.leaves)), preempts_after_ms=after)

    def _leaf(self, path: str) -> LeafQueue:
        guaranteed = maximum = 1.0
        names = path.split(".")
        for end in range(2, len(names) + 1):
            guaranteed *= self.capacity(".".join(names[:end])) / 100
            maximum *= self.maximum(".".join(names[:end])) / 100
        kept = self._inherited(path, "disable_preemption") == "true"
        return LeafQueue(
            path, guaranteed, max(maximum, 0.0),
            user_factor=self._user_factor(path),
            user_least=self.number(path, "minimum-user-limit-percent", 100.0) / 100,
            priority=self._priority(path), gives_back=not kept,
            evenly=self.properties.get(f"{PREFIX}{path}.ordering-policy", "").strip() == "fair",
        )  # fmt: skip

    def _user_factor(self, path: str) -> float:
        factor = self.number(path, "user-limit-factor", 1.0)
        return factor if factor >= 0 else math.inf

    def _priority(self, path: str) -> int:
        """Priority of a queue; 0 where its parent does not look at it."""
        parent = path.rpartition(".")[0]
        policy = self.properties.get(f"{PREFIX}{parent}.ordering-policy", "").strip()
        return int(self.number(path, "priority", 0.0)) if policy == "priority-utilization" else 0

    def _inherited(self, path: str, name: str) -> str:
        """Value of a property of a queue, or of the nearest parent that has it."""
        names = path.split(".")
        paths = (".".join(names[:end]) for end in range(len(names), 0, -1))
        found = (self.properties.get(f"{PREFIX}{one}.{name}", "").strip() for one in paths)
        return next((value.lower() for value in found if value), "")

    def edited(self, values: Mapping[str, str]) -> CapacityFile:
        """Return the file with some properties, by name without :data:`PREFIX`, set anew.

        Properties that stay keep their bytes; new ones come last. Raises IqcarError if the file
        would be wrong then.
        """
        elements = _elements(self.root)
        edits: list[Edit] = []
        added: list[str] = []
        for name, value in values.items():
            key = PREFIX + name
            if self.properties.get(key, "").strip() == value:
                continue
            element = elements[key].child("value") if key in elements else None
            if element is not None:
                edits.append(set_text(element, value))
            else:
                added += [
                    "<property>",
                    f"  <name>{escape(key)}</name>",
                    f"  <value>{escape(value)}</value>",
                    "</property>",
                ]
        if added:
            edits.append(append(self.content, self.root, added))
        return read_capacity_file(apply_edits(self.content, edits), self.where)


def read_capacity_file(content: bytes, where: str) -> CapacityFile:
    """Read a file of the CapacityScheduler.

    Raises IqcarError if it is no such file, or if its queues contradict each other.
    """
    root = parse_xml(content, where, ADVICE)
    if root.tag != "configuration":
        raise IqcarError(f"begins with <{root.tag[:40]}>, not <configuration>", where, ADVICE)
    values = {
        name: value.text if (value := element.child("value")) is not None else ""
        for name, element in _elements(root).items()
    }
    children: dict[str, tuple[str, ...]] = {}
    _add_children(ROOT, values, children, where)
    if ROOT not in children:
        raise IqcarError(f"has no {PREFIX}root.queues", where, ADVICE)
    file = CapacityFile(content, where, root, values, children)
    for parent, names in children.items():
        total = sum(file.capacity(f"{parent}.{name}") for name in names)
        if abs(total - 100) > SUM_ERROR:
            what = f"the capacities of the queues of {parent} sum to {total:g} %, not 100 %"
            raise IqcarError(what, where, "mend them first")
    for path in file.leaves:
        if not 0 <= file.capacity(path) <= file.maximum(path) + SUM_ERROR:
            what = f"the capacity of {path} is not between 0 and its maximum-capacity"
            raise IqcarError(what, where, "mend it first")
    return file


def _elements(root: Element) -> dict[str, Element]:
    """Properties by name; of one that is repeated the last counts, as for Hadoop."""
    found = {}
    for element in root.all("property"):
        name = element.child("name")
        if name is not None and name.text:
            found[name.text] = element
    return found


def _add_children(
    path: str, values: Mapping[str, str], children: dict[str, tuple[str, ...]], where: str
) -> None:
    listed = values.get(f"{PREFIX}{path}.queues", "")
    names = tuple(name.strip() for name in listed.split(",") if name.strip())
    if not names:
        return
    known = sum(map(len, children.values())) + len(names)
    if known > MAX_QUEUES or len(set(names)) < len(names) or path.count(".") > 20:
        what = f"{path} has a queue twice, or there are more than {MAX_QUEUES:,}"
        raise IqcarError(what, where, "mend it first")
    children[path] = names
    for name in names:
        _add_children(f"{path}.{name}", values, children, where)


def assumed_capacity_file(queues: Mapping[str, float], where: str) -> CapacityFile:
    """Make a file of queues under the root, by the percent that each is guaranteed."""
    values = {"root.queues": ",".join(queues)}
    values |= {f"root.{name}.capacity": percent_text(share) for name, share in queues.items()}
    lines = [
        f"  <property>\n    <name>{escape(PREFIX + name)}</name>\n"
        f"    <value>{escape(value)}</value>\n  </property>\n"
        for name, value in values.items()
    ]
    text = f'<?xml version="1.0"?>\n<configuration>\n{"".join(lines)}</configuration>\n'
    return read_capacity_file(text.encode(), where)


def percent_text(value: float) -> str:
    """Write a percentage as in these files: at most two digits after the point."""
    return f"{round(value, 2):.2f}".rstrip("0").rstrip(".")
