"""Reads and edits the allocation file of YARN's FairScheduler (``fair-scheduler.xml``)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from iqcar.base.files.xml_text import Edit, Element, append, edited_file, parse_xml, set_text
from iqcar.base.files.xml_text import quoted as quoted_text
from iqcar.errors import IqcarError
from iqcar.rules.queues.queue_setup import DEFAULT_QUEUE, LeafQueue, QueueSetup

ADVICE = "give the allocation file of the FairScheduler (yarn.scheduler.fair.allocation.file)"
MAX_QUEUES = 1_000
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
            raise IqcarError(f"{tag} of {path} is {text[:40]!r}, no number", self.where, ADVICE)
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
    root = parse_xml(content, where, ADVICE)
    if root.tag != "allocations":
        raise IqcarError(f"begins with <{root.tag[:40]}>, not <allocations>", where, ADVICE)
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
