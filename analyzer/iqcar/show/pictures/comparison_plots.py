"""``comparison.plot``: every picture of a comparison by its name; page and notebook show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from iqcar.base.limits import MOST_BLAMED, MOST_RUN_DOTS, MOST_STAGES, MOST_STEPS, fold
from iqcar.base.units import REQUEST_NAMES, duration, short
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.explore import find_change
from iqcar.comparison.match import SideMeans, side_means
from iqcar.comparison.sides import AGAIN
from iqcar.enums import BlameKind, Resource
from iqcar.errors import UsageError
from iqcar.model.waits.stage_parts import PART_NAMES
from iqcar.say.blamed import cause_name
from iqcar.show.pictures import drawing as svg
from iqcar.show.pictures.drawing import Drawing
from iqcar.show.pictures.theme import (
    ADDED,
    AFTER,
    BEFORE,
    FASTER,
    GONE,
    OTHERS,
    SLOWER,
)
from iqcar.tables import texts

WIDTH = 900
STEPS_PLANE, PAIRS_PLANE = 500, 480
LEFT, DOTS_PLANE = 90, 680
"""Widths of drawings and of what is drawn in them, in pixels."""
PAIR_PX, BAR_PX = 34, 12
PANEL_PX, NODE_PX, INDENT_PX = 460, 46, 22
MOST_INDENT = 8
"""Depth beyond which nodes are not indented further."""
LETTER_PX = 7.4
STROKE_PX = 3
"""Width of the edge of a stage that changed; of another half of it."""
COLOURS = {"added": ADDED, "gone": GONE, "changed": SLOWER, "": OTHERS}


def waterfall(before_ms: float, steps: Sequence[tuple[str, float]], rest_ms: float) -> svg.Drawing:
    """Draw a waterfall of contributions.

    before_ms: time before.
    steps: what changed, and by how many ms, in order; beyond :data:`~iqcar.base.limits.MOST_STEPS`
    the smallest are one step.
    rest_ms: what all that is not said to have changed adds.
    """
    kept, left = fold([abs(ms) for _, ms in steps], MOST_STEPS)
    shown = [(*steps[place], "") for place in sorted(kept.tolist())]
    if len(left):
        shown.append((f"{len(left)} more changes", sum(steps[place][1] for place in left), OTHERS))
    shown.append(("not told to have changed", rest_ms, OTHERS))
    reached = [before_ms]
    for _, ms, _ in shown:
        reached.append(reached[-1] + ms)
    # From nothing on if the steps are large beside the whole; else steps could not be seen.
    low, high = min(reached), max(reached)
    low = 0.0 if high - low > 0.2 * high else max(0.0, low - 2 * (high - low))
    whole = (high - low) or 1.0
    rows: list[str] = []
    height = svg.ROW_PX * (len(shown) + 2)
    rows.append(svg.time_axis(low, high, svg.LABEL_PX, STEPS_PLANE, height))

    def at(ms: float) -> float:
        return svg.LABEL_PX + STEPS_PLANE * (ms - low) / whole

    def row(number: int, name: str, span: tuple[float, float], colour: str, said: str) -> None:
        start, end = span
        y = svg.ROW_PX * number
        x, width = at(min(start, end)), at(max(start, end)) - at(min(start, end))
        weight = 650 if colour in (BEFORE, AFTER) else 400
        rows.append(svg.label(y + 16, name, weight=weight))
        rows.append(svg.bar(x, y + 4, width, svg.ROW_PX - 8, colour, title=f"{name}: {said}"))
        rows.append(svg.text(svg.LABEL_PX + STEPS_PLANE + 14, y + 16, said))
        if colour != AFTER:
            rows.append(
                svg.line(at(end), y + svg.ROW_PX - 4, at(end), y + svg.ROW_PX + 4, faint=False)
            )

    row(0, "before", (low, before_ms), BEFORE, duration(before_ms))
    for number, (name, ms, colour) in enumerate(shown):
        said = f"{'+' if ms >= 0 else '−'}{duration(abs(ms))}"
        colour = colour or (SLOWER if ms >= 0 else FASTER)
        row(number + 1, name, (reached[number], reached[number + 1]), colour, said)
    row(len(shown) + 1, "after", (low, reached[-1]), AFTER, duration(reached[-1]))
    said = f"From {duration(before_ms)} before to {duration(reached[-1])} after, change by change"
    return svg.drawing(said, WIDTH, height + 22, rows)


def run_dots(before_ms: Sequence[float], after_ms: Sequence[float]) -> svg.Drawing:
    """Draw a row of dots for each side, and a line at its mean.

    before_ms, after_ms: time in each run, ms.
    """
    sides = [np.asarray(values, np.float64) for values in (before_ms, after_ms)]
    every = np.concatenate(sides)
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    room = 0.08 * (high - low) or 0.05 * high or 1.0
    low, high = max(0.0, low - room), high + room
    height = 2 * svg.ROW_PX
    found = [svg.time_axis(low, high, LEFT, DOTS_PLANE, height)]
    for place, (name, values, colour) in enumerate(
        zip(("before", "after"), sides, (BEFORE, AFTER), strict=True)
    ):
        y = svg.ROW_PX * place + svg.ROW_PX / 2
        found.append(svg.text(0, y + 4, name))
        if not len(values):
            found.append(svg.text(LEFT + 6, y + 4, "did not run"))
            continue
        mean = float(values.mean())
        x = LEFT + DOTS_PLANE * (mean - low) / (high - low)
        for value in _some(values):
            dot = LEFT + DOTS_PLANE * (value - low) / (high - low)
            found.append(
                f'<circle cx="{dot:.1f}" cy="{y:.1f}" r="5" fill="{colour}" fill-opacity="0.75">'
                f"<title>{svg.escape(f'a run {name}: {duration(value)}')}</title></circle>"
            )
        found.append(svg.line(x, y - 9, x, y + 9, faint=False))
        found.append(svg.text(LEFT + DOTS_PLANE + 14, y + 4, f"mean {duration(mean)}"))
    counts = " and ".join(
        f"{len(values)} {'run' if len(values) == 1 else 'runs'} {name}"
        for values, name in zip(sides, ("before", "after"), strict=True)
    )
    return svg.drawing(f"A dot for each of {counts}", WIDTH, height + 22, found)


def _some(values: np.ndarray) -> list[float]:
    ordered = np.sort(values)
    if len(ordered) > MOST_RUN_DOTS:
        ordered = ordered[np.linspace(0, len(ordered) - 1, MOST_RUN_DOTS).round().astype(int)]
    found: list[float] = ordered.tolist()
    return found


def paired_bars(rows: Sequence[tuple[str, float, float]], label_of_all: str) -> svg.Drawing:
    """Draw a pair of bars for each name.

    rows: name, ms before and ms after.
    label_of_all: what is seen, for who cannot see it.
    """
    high = max((max(row[1:]) for row in rows), default=0.0) or 1.0
    height = PAIR_PX * max(len(rows), 1)
    found = [svg.time_axis(0.0, high, svg.LABEL_PX, PAIRS_PLANE, height)]
    for place, (name, *amounts) in enumerate(rows):
        top = PAIR_PX * place + 4
        found.append(svg.label(top + 17, name))
        for number, (ms, colour, word) in enumerate(
            zip(amounts, (BEFORE, AFTER), ("before", "after"), strict=True)
        ):
            y = top + number * (BAR_PX + 1)
            said = f"{name} {word}: {duration(ms)}"
            found.append(
                svg.bar(svg.LABEL_PX, y, PAIRS_PLANE * ms / high, BAR_PX, colour, title=said)
            )
        said = f"{duration(amounts[0])} → {duration(amounts[1])}"
        found.append(svg.text(svg.LABEL_PX + PAIRS_PLANE + 14, top + 17, said))
    return svg.drawing(label_of_all, WIDTH, height + 22, found)


class StageNode(NamedTuple):
    """A stage in a graph, readers before what they read.

    depth: stages between it and the query's end.
    status: ``added``, ``gone``, ``changed`` or empty.
    facts: partitions and time, in words.
    again: whether it was drawn before, for another reader.
    """

    depth: int
    label: str
    status: str
    facts: str
    again: bool = False


def stage_graphs(before: Sequence[StageNode], after: Sequence[StageNode]) -> svg.Drawing:
    """Draw two graphs, each from the last stage down to what it reads, one stage a line.

    At most :data:`~iqcar.base.limits.MOST_STAGES` stages of each are drawn; the others are counted.
    """
    found: list[str] = []
    for number, (nodes, name) in enumerate(((before, "before"), (after, "after"))):
        left = STROKE_PX + number * (PANEL_PX + 20)
        found.append(svg.text(left, 14, name, weight=650))
        if not nodes:
            found.append(svg.text(left, 44, "no stage"))
        found += _panel(nodes[:MOST_STAGES], left)
        if len(nodes) > MOST_STAGES:
            y = 24 + NODE_PX * MOST_STAGES + 14
            found.append(svg.text(left, y, f"{len(nodes) - MOST_STAGES} more stages"))
    most = min(max(len(before), len(after), 1), MOST_STAGES)
    said = f"Stage graphs: {len(before)} stages before, {len(after)} after"
    return svg.drawing(said, 2 * (PANEL_PX + STROKE_PX) + 20, 24 + NODE_PX * most + 22, found)


def _panel(nodes: Sequence[StageNode], left: float) -> list[str]:
    found: list[str] = []
    last_at: dict[int, float] = {}
    for place, node in enumerate(nodes):
        x = left + INDENT_PX * min(node.depth, MOST_INDENT)
        y = 24 + NODE_PX * place
        colour = COLOURS[node.status]
        dash = ' stroke-dasharray="4 3"' if node.status == "gone" or node.again else ""
        strong = STROKE_PX if node.status else STROKE_PX / 2
        if node.depth > 0 and node.depth - 1 in last_at:
            from_x = left + INDENT_PX * min(node.depth - 1, MOST_INDENT) + 8
            found.append(
                f'<path d="M{from_x:.1f} {last_at[node.depth - 1]:.1f}V{y + 19:.1f}H{x:.1f}" '
                f'fill="none" stroke="{colour}" stroke-width="{strong}"{dash}/>'
            )
        width = left + PANEL_PX - x
        facts = " · ".join(part for part in (node.status, node.facts) if part)
        facts = "drawn above, read again" if node.again else facts
        letters = int((width - 16) / LETTER_PX)
        found.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{NODE_PX - 8}" rx="5" '
            f'fill="{colour}" fill-opacity="0.12" stroke="{colour}" stroke-width="{strong}"{dash}>'
            f"<title>{svg.escape(short(node.label, 300))}</title></rect>"
        )
        found.append(svg.text(x + 8, y + 16, short(node.label, letters), weight=600))
        found.append(svg.text(x + 8, y + 32, short(facts, letters)))
        last_at[node.depth] = y + NODE_PX - 8
    return found


Wanted = str | int

LEAST_SHOWN_MS = 1.0
"""Time below which a pair of bars is left out."""
PART_WORDS = {
    "slots_ms": "waiting for slots",
    "executors_ms": "waiting for executors",
    "compute_ms": "computing",
    "gc_ms": "garbage collection",
    "tail_ms": "tail after the last start",
    "rest_ms": "anything else",
    **{f"{request}_ms": f"waiting for {name}" for request, name in REQUEST_NAMES.items()},
}
"""Parts of a stage's time as a reader calls them."""


class ComparisonPlots:
    """Pictures of one comparison as SVG.

    A change is named by its rank, by ``"1.2"`` for the second stage of the first, or by the name
    or fingerprint of a query, changed or not; without one, the first change is taken.
    """

    def __init__(self, comparison: Comparison) -> None:
        self._of = comparison

    def waterfall(self) -> Drawing:
        """From the time of a run before to that after, query by query."""
        changes, effects = self._of.changes, self._of.effects
        queries = effects.iloc[self._of.queries]
        contribution = queries["contribution_ms"].to_numpy(np.float64)
        before = float((queries["before_ms"] * queries["instances"]).sum())
        top = changes[changes["parent"].to_numpy() < 0]
        steps = [
            (self._of.name(category), float(ms))
            for category, ms in zip(
                top["category"].tolist(), top["contribution_ms"].tolist(), strict=True
            )
        ]
        return waterfall(before, steps, float(contribution.sum()) - sum(ms for _, ms in steps))

    def runs(self, change: Wanted | None = None) -> Drawing:
        """Draw a dot for the time of a query or stage in every run."""
        return self.runs_of(self._category(change))

    def parts(self, change: Wanted | None = None) -> Drawing:
        """Draw what the time went into on both sides; the parts of a side sum to its mean time."""
        return self.parts_of(self._category(change))

    def stages(self, query: Wanted | None = None) -> Drawing:
        """Draw the stage graphs of most runs on both sides."""
        return self.stages_of(self._category(query))

    def blame(self, query: Wanted | None = None) -> Drawing:
        """Draw to whom a query lost time on both sides, as far as blame was computed."""
        return self.blame_of(self._category(query))

    def runs_of(self, category: int) -> Drawing:
        """As :meth:`runs`, by row of ``categories``."""
        runs = self._of.category_runs
        here = runs[runs["category"].to_numpy() == category]
        side, time = here["side"].to_numpy(), here["time_ms"].to_numpy(np.float64)
        return run_dots(time[side == 0].tolist(), time[side == 1].tolist())

    def parts_of(self, category: int) -> Drawing:
        """As :meth:`parts`, by row of ``categories``."""
        before, after = (of.measure for of in self._means)
        pairs = [
            (PART_WORDS[name], float(before[name][category]), float(after[name][category]))
            for name in PART_NAMES
        ]
        shown = [pair for pair in pairs if max(pair[1:]) >= LEAST_SHOWN_MS]
        return paired_bars(shown, "Parts of the time before and after")

    def steps_of(self, category: int) -> Drawing:
        """Draw the stages and the driver of a query on both sides, on the chain to its end."""
        parts = self._of.parts(category)
        shown = parts[(parts[["before_ms", "after_ms"]] >= LEAST_SHOWN_MS).any(axis=1)]
        kept = shown.assign(most=shown[["before_ms", "after_ms"]].max(axis=1)).nlargest(
            MOST_STAGES, "most"
        )
        rows = list(
            zip(*(kept[name].tolist() for name in ("name", "before_ms", "after_ms")), strict=True)
        )
        return paired_bars(rows, "Stages and driver before and after")

    def blame_of(self, category: int) -> Drawing:
        """As :meth:`blame`, by row of ``categories``."""
        rows = self.blamed(category)
        kept, left = fold([max(row[1:]) for row in rows], MOST_BLAMED)
        shown = [rows[place] for place in kept.tolist()]
        if len(left):
            before, after = (sum(rows[place][side] for place in left.tolist()) for side in (1, 2))
            shown.append((f"{len(left)} more", before, after))
        return paired_bars(shown, "Time lost to each, before and after")

    def blamed(self, category: int) -> list[tuple[str, float, float]]:
        """Return who a query lost time to, with ms lost per run of it before and after."""
        lost: dict[str, list[float]] = {}
        rows = self._of.blame_change(category)
        columns = (
            rows[name].tolist()
            for name in ("source_name", "kind", "resource", "before_ms", "after_ms")
        )
        for source, kind, resource, before, after in zip(*columns, strict=True):
            # A query that was left out, such as one that failed, has no category.
            of = BlameKind.REST if kind == BlameKind.QUERY else BlameKind(kind)
            who = source or cause_name(of, Resource(resource))
            sums = lost.setdefault(who, [0.0, 0.0])
            sums[0] += before
            sums[1] += after
        return [
            (who, before, after)
            for who, (before, after) in lost.items()
            if max(before, after) >= LEAST_SHOWN_MS
        ]

    def stages_of(self, category: int) -> Drawing:
        """As :meth:`stages`, by row of ``categories``."""
        root = int(self._of.categories["query_category"].iloc[category])
        return stage_graphs(*(self._nodes(root, side) for side in (0, 1)))

    def _category(self, wanted: Wanted | None) -> int:
        if wanted is not None:
            return find_change(self._of, wanted)
        if self._of.changes.empty:
            raise UsageError("nothing changed", "plot", "name a query to draw it")
        return int(self._of.changes["category"].iloc[0])

    @cached_property
    def _means(self) -> tuple[SideMeans, SideMeans]:
        runs, categories = self._of.category_runs, self._of.categories
        return side_means(runs, categories, 0), side_means(runs, categories, 1)

    @cached_property
    def _stages(self) -> tuple[dict[int, dict[str, list[int]]], ...]:
        """Categories of the stages of each query and label, on either side."""
        found: list[dict[int, dict[str, list[int]]]] = []
        parent = self._of.categories["parent"].to_numpy()
        for side, of in zip(self._of.sides, self._of.category_of, strict=True):
            kinds, labels = texts(side.nodes, "kind"), texts(side.nodes, "label")
            named: dict[int, dict[str, list[int]]] = {}
            for node, category in enumerate(of.tolist()):
                if kinds[node] == "stage" and category >= 0:
                    label = labels[node].replace("\n", " ")
                    named.setdefault(int(parent[category]), {}).setdefault(label, []).append(
                        category
                    )
            found.append(named)
        return tuple(found)

    @cached_property
    def _present(self) -> tuple[frozenset[int], ...]:
        return tuple(frozenset(of.tolist()) for of in self._of.category_of)

    @cached_property
    def _graphs(self) -> tuple[dict[int, Counter[str]], ...]:
        """How often each stage graph was seen, by query and side."""
        found: list[dict[int, Counter[str]]] = []
        for side, of in zip(self._of.sides, self._of.category_of, strict=True):
            seen: dict[int, Counter[str]] = {}
            categories = of[side.graphs["node"].to_numpy(np.int64)].tolist()
            for category, graph in zip(categories, texts(side.graphs, "graph"), strict=True):
                seen.setdefault(category, Counter())[graph] += 1
            found.append(seen)
        return tuple(found)

    @cached_property
    def _changed(self) -> frozenset[int]:
        return frozenset(self._of.changes["category"].tolist())

    def _nodes(self, root: int, side: int) -> list[StageNode]:
        seen = self._graphs[side].get(root)
        if not seen:
            return []
        own = self._of.new_graphs.get(root)
        graph = own[side] if own else min(seen, key=lambda text: (-seen[text], text))
        named = self._stages[side].get(root, {})
        found = []
        for row in graph.split("\n") if graph else []:
            depth, _, label = row.partition(" ")
            again = label.startswith(AGAIN) and label not in named
            label = label.removeprefix(AGAIN) if again else label
            of = named.get(label, [])
            status, facts = self._status(of, side), self._facts(of, side)
            found.append(StageNode(int(depth), label or "stage", status, facts, again))
        return found

    def _status(self, categories: list[int], side: int) -> str:
        if any(category in self._changed for category in categories):
            both = [category for category in categories if category in self._present[1 - side]]
            if both:
                return "changed"
        if categories and not any(one in self._present[1 - side] for one in categories):
            return "added" if side else "gone"
        return ""

    def _facts(self, categories: list[int], side: int) -> str:
        if not categories:
            return ""
        means = self._means[side].measure
        partitions = sorted({round(float(means["partitions"][one])) for one in categories})
        time = sum(float(means["time_ms"][one]) for one in categories)
        few = " or ".join(f"{count:,}" for count in partitions[:3])
        several = f"{len(categories)} of this name: " if len(categories) > 1 else ""
        word = "partition" if partitions == [1] else "partitions"
        return f"{several}{few} {word}, {duration(time)}"
