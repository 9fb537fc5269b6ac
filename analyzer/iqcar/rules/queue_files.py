"""Reads and edits the queues of YARN: ``capacity-scheduler.xml`` and the allocation file.

Properties of the CapacityScheduler are read as Hadoop's ``Configuration`` reads them; an include,
and variables in what is told of queues, are refused. Percentages only: capacities as weights
(``2w``) or absolute resources (``[memory=…]``) are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from xml.sax.saxutils import escape

import msgspec

from iqcar.base.files.xml_text import (
    Edit,
    Element,
    append,
    edited_file,
    parse_xml,
    place_of,
    set_attribute,
    set_text,
)
from iqcar.base.files.xml_text import quoted as quoted_text
from iqcar.enums import Kind
from iqcar.errors import IqcarError


class PlanTarget(Kind):
    """What rules or plans are compiled for."""

    FAIR_POOLS = "fair-pools", "FAIR pools inside one application, from a rules file."
    YARN_CAPACITY = "yarn-capacity", "Queues of YARN's CapacityScheduler (capacity-scheduler.xml)."
    YARN_FAIR = "yarn-fair", "Queues of YARN's FairScheduler (its allocation file)."


DEFAULT_QUEUE = "default"
"""Where an application runs that sets no spark.yarn.queue."""


class LeafQueue(msgspec.Struct, frozen=True):
    """A queue that runs applications; shares are of the whole cluster.

    path: with the names of its parents, from ``root``.
    guaranteed: share that it gets before others get more than theirs; of the FairScheduler its
        part of the weights.
    maximum: share that it gets at most.
    user_factor: share that one user's applications get at most, as a multiple of ``guaranteed``.
    user_least: part of the queue that each of several users gets before others, 0 to 1.
    priority: queues of higher priority go first.
    gives_back: whether executors beyond its guaranteed share can be taken from it.
    evenly: whether its applications share it, instead of one after the other.
    """

    path: str
    guaranteed: float
    maximum: float = 1.0
    user_factor: float = math.inf
    user_least: float = 1.0
    priority: int = 0
    gives_back: bool = True
    evenly: bool = False


class QueueSetup(msgspec.Struct, frozen=True):
    """The queues of a cluster.

    queues: those that run applications.
    fair: whether queues are ordered by weights, which ``guaranteed`` then holds (FairScheduler).
    preempts_after_ms: how long a queue lacks what it is guaranteed before that is taken from
        others; infinite where executors are never taken back.
    """

    queues: tuple[LeafQueue, ...]
    fair: bool = False
    preempts_after_ms: float = math.inf

    def find(self, name: str) -> int | None:
        """Return the position of a queue by its path, or by its last name where only one has it."""
        for at, queue in enumerate(self.queues):
            if name in (queue.path, queue.path.removeprefix("root.")):
                return at
        named = [at for at, queue in enumerate(self.queues) if queue.path.split(".")[-1] == name]
        return named[0] if len(named) == 1 else None


PREFIX = "yarn.scheduler.capacity."
ROOT = "root"
ADVICE = "give the file that the ResourceManager reads (yarn.scheduler.capacity.* properties)"
MAX_QUEUES = 1_000
SUM_ERROR = 1e-3
"""Percent by which the capacities of a parent's queues may miss 100: YARN allows as much."""
_LEVELS = {"property": 1, "name": 2, "value": 2, "final": 2}
"""At how many levels below the outermost element each is read. Hadoop takes them at any level."""
_BLANKS = "".join(map(chr, range(33)))
"""What Java trims from a text."""


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

    def setup(self, preempts_after_ms: float = math.inf) -> QueueSetup:
        """Return the queues as the scheduler sees them.

        preempts_after_ms: where ``yarn.resourcemanager.scheduler.monitor.enable`` is on, which
            stands in another file.
        """
        leaves = tuple(map(self._leaf, self.leaves))
        return QueueSetup(leaves, preempts_after_ms=preempts_after_ms)

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
        found = _properties(self.root, self.content, self.where)
        edits: list[Edit] = []
        added: list[str] = []
        for name, value in values.items():
            key = PREFIX + name
            if self.properties.get(key, "").strip() == value:
                continue
            if key in found:
                edits.append(found[key].set_to(value, self.content))
            else:
                added += [
                    "<property>",
                    f"  <name>{escape(key)}</name>",
                    f"  <value>{escape(value)}</value>",
                    "</property>",
                ]
        if added:
            edits.append(append(self.content, self.root, added))
        edited = edited_file(read_capacity_file, self.content, edits, self.where)
        for name, value in values.items():
            if edited.properties.get(PREFIX + name, "").strip() != value:
                what = f"{PREFIX}{name} is final without a value"
                raise IqcarError(what, self.where, f"set it to {value} by hand")
        return edited


def read_capacity_file(content: bytes, where: str) -> CapacityFile:
    """Read a file of the CapacityScheduler.

    Raises IqcarError if it is no such file, or if its queues contradict each other.
    """
    root = parse_xml(content, where, ADVICE)
    if root.tag != "configuration":
        raise IqcarError(f"begins with <{root.tag[:40]}>, not <configuration>", where, ADVICE)
    found = _properties(root, content, where)
    values = {name: one.value for name, one in found.items()}
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


class _Property(NamedTuple):
    """A property that counts, and the element with its value; None if an attribute holds it."""

    value: str
    element: Element
    inside: Element | None

    def set_to(self, value: str, content: bytes) -> Edit:
        if self.inside is None:
            return set_attribute(content, self.element, "value", value)
        return set_text(self.inside, value)


def _properties(root: Element, content: bytes, where: str) -> dict[str, _Property]:
    """Properties by name, as Hadoop's Configuration takes them from one file.

    A later one replaces an earlier one, unless that is final or the later one has no value.
    Elements replace attributes, unless they are empty; names in elements are trimmed, values not.
    """
    _refuse_unread(root, content, where)
    found: dict[str, _Property] = {}
    final_names: set[str] = set()
    for element in root.children:
        if element.tag != "property":
            continue
        name, value, final = (element.attributes.get(one) for one in ("name", "value", "final"))
        inside = None
        for part in element.children:
            if part.tag == "name" and part.text:
                name = part.text.strip(_BLANKS)
            elif part.tag == "value" and part.text:
                value, inside = part.text, part
            elif part.tag == "final":
                final = part.text
        if name is None:
            continue
        if value is not None and name not in final_names:
            if name.startswith(PREFIX + ROOT) and "${" in value:
                what = f"{name[:200]} holds a variable, which is not read"
                raise IqcarError(what, place_of(content, element, where), "write its value out")
            found[name] = _Property(value, element, inside)
        if final == "true":
            final_names.add(name)
    return found


def _refuse_unread(element: Element, content: bytes, where: str) -> None:
    """Raise IqcarError where Hadoop takes something from an element that is not read here."""
    for one in element.children:
        name = one.tag.rpartition(":")[2]
        prefixed = [each for each in (one.tag, *one.attributes) if ":" in each]
        if name == "include":
            what = "another file is included, which is not read"
            raise IqcarError(what, place_of(content, one, where), "put its properties in its place")
        if _LEVELS.get(element.tag) == 2 or (
            name in _LEVELS and (prefixed or one.depth != _LEVELS[name])
        ):
            what = f"<{one.tag[:40]}> is not read here"
            advice = "write <property> in <configuration>, and in it <name>, <value> and <final>"
            raise IqcarError(what, place_of(content, one, where), advice)
        _refuse_unread(one, content, where)


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
    """Write a percentage as in these files: so many digits that sums stay within SUM_ERROR."""
    return f"{value:.4f}".rstrip("0").rstrip(".")


FAIR_ADVICE = "give the allocation file of the FairScheduler (yarn.scheduler.fair.allocation.file)"
_QUEUE = ("queue", "pool")
_PERCENT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*%")
_CORES = (
    re.compile(r"(?:\bvcores\s*=\s*(\d{1,12}))|(?:(\d{1,12})\s*vcores)", re.IGNORECASE),
    re.compile(r",\s*(\d{1,12})()"),
)
"""How cores stand in ``maxResources``: with their unit, else behind the memory."""


@dataclass(frozen=True)
class FairFile:
    """A file and its queues by path, the parents too.

    elements: None for ``root.default`` where the file does not have it: it is there all the same.
    """

    content: bytes
    where: str
    root: Element
    elements: dict[str, Element | None]

    @property
    def leaves(self) -> list[str]:
        """Paths of the queues that run applications."""
        parents = {path.rpartition(".")[0] for path in self.elements}
        return [path for path in self.elements if path not in parents]

    def weight(self, path: str) -> float:
        """Weight of a queue among those of its parent; 1 where it has none."""
        return self._number(path, "weight", 1.0)

    def maximum(self, path: str, cores: int) -> float:
        """Share of the cluster that a queue gets at most, the least of its own and its parents'."""
        names = path.split(".")
        paths = (".".join(names[:end]) for end in range(1, len(names) + 1))
        return min(self._own_maximum(one, cores) for one in paths)

    def _own_maximum(self, path: str, cores: int) -> float:
        text = self._text(path, "maxResources")
        shares = [float(found) / 100 for found in _PERCENT.findall(text)]
        if shares:
            return min(shares)
        named, placed = _CORES
        found = named.search(text) or placed.search(text)
        return int(found[1] or found[2]) / max(cores, 1) if found else 1.0

    def setup(self, cores: int, preempts_after_ms: float = math.inf) -> QueueSetup:
        """Return the queues as the scheduler sees them.

        cores: of the cluster.
        preempts_after_ms: where ``yarn.scheduler.fair.preemption`` is on.
        """
        leaves = tuple(self._leaf(path, cores) for path in self.leaves)
        return QueueSetup(leaves, fair=True, preempts_after_ms=preempts_after_ms)

    def _leaf(self, path: str, cores: int) -> LeafQueue:
        share, names = 1.0, path.split(".")
        for end in range(2, len(names) + 1):
            one = ".".join(names[:end])
            parent = one.rpartition(".")[0]
            beside = [p for p in self.elements if p.rpartition(".")[0] == parent]
            total = sum(map(self.weight, beside))
            share *= self.weight(one) / total if total > 0 else 0.0
        policy = self._text(path, "schedulingPolicy") or self._root_text(
            "defaultQueueSchedulingPolicy"
        )
        kept = self._text(path, "allowPreemptionFrom").lower() == "false"
        return LeafQueue(
            path, share, self.maximum(path, cores), evenly=policy.lower() != "fifo",
            gives_back=not kept,
        )  # fmt: skip

    def _root_text(self, tag: str) -> str:
        child = self.root.child(tag)
        return child.text.strip() if child is not None else ""

    def _text(self, path: str, tag: str) -> str:
        element = self.elements.get(path)
        child = element.child(tag) if element is not None else None
        return child.text.strip() if child is not None else ""

    def _number(self, path: str, tag: str, default: float) -> float:
        text = self._text(path, tag)
        try:
            value = float(text) if text else default
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise IqcarError(
                f"{tag} of {path} is {text[:40]!r}, no number", self.where, FAIR_ADVICE
            )
        return value

    def edited(self, values: dict[str, dict[str, str]]) -> FairFile:
        """Return the file with some elements of queues set anew; queues it lacks come last.

        values: by path of the queue, then by element.
        """
        edits: list[Edit] = []
        for path, of_queue in values.items():
            element = self.elements.get(path)
            changed = {t: v for t, v in of_queue.items() if self._text(path, t) != v}
            if element is not None:
                children = {tag: element.child(tag) for tag in changed}
                edits += [
                    set_text(one, changed[t]) for t, one in children.items() if one is not None
                ]
                added = [_line(t, changed[t]) for t, one in children.items() if one is None]
                edits += [append(self.content, element, added)] if added else []
            else:
                parent, _, name = path.rpartition(".")
                place = self.elements.get(parent) or self.root
                lines = [f'<queue name="{quoted_text(name)}">']
                lines += [f"  {_line(tag, value)}" for tag, value in of_queue.items()]
                edits.append(append(self.content, place, [*lines, "</queue>"]))
        return edited_file(read_fair_file, self.content, edits, self.where)


def _line(tag: str, value: str) -> str:
    return f"<{tag}>{quoted_text(value)}</{tag}>"


def read_fair_file(content: bytes, where: str) -> FairFile:
    """Read an allocation file; raises IqcarError if it is none."""
    root = parse_xml(content, where, FAIR_ADVICE)
    if root.tag != "allocations":
        raise IqcarError(f"begins with <{root.tag[:40]}>, not <allocations>", where, FAIR_ADVICE)
    elements: dict[str, Element | None] = {}
    for path, element in _queues(root, ""):
        if path in elements or len(elements) >= MAX_QUEUES:
            what = f"has the queue {path[:80]} twice, or more than {MAX_QUEUES:,} queues"
            raise IqcarError(what, where, "mend it first")
        elements[path] = element
    elements.setdefault(f"root.{DEFAULT_QUEUE}", None)
    file = FairFile(content, where, root, elements)
    for path in elements:
        file.weight(path)
    return file


def _queues(element: Element, parent: str) -> Iterator[tuple[str, Element]]:
    for child in element.children:
        if child.tag not in _QUEUE:
            continue
        name = child.attributes.get("name", "").strip()
        if not parent and name == "root":
            path = "root"
        else:
            path = f"{parent or 'root'}.{name}"
            yield path, child
        yield from _queues(child, path)


def assumed_fair_file(queues: dict[str, float], where: str) -> FairFile:
    """Make a file of queues under the root, by their weights."""
    file = read_fair_file(b'<?xml version="1.0"?>\n<allocations>\n</allocations>\n', where)
    return file.edited({f"root.{name}": {"weight": f"{w:g}"} for name, w in queues.items()})
