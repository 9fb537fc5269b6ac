"""``comparison.plot``: every picture of a comparison by its name; page and notebook show them."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np

from iqcar.base.limits import MOST_BLAMED, MOST_STAGES, fold
from iqcar.base.units import REQUEST_NAMES, duration
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.explore import find_change
from iqcar.comparison.match.compared_rows import SideMeans, side_means
from iqcar.comparison.sides.stage_graph_key import AGAIN
from iqcar.enums import BlameKind, Resource
from iqcar.errors import UsageError
from iqcar.model.waits.stage_parts import PART_NAMES
from iqcar.say.blamed import cause_name
from iqcar.show.pictures.drawing import Drawing
from iqcar.show.pictures.sides import (
    StageNode,
    paired_bars,
    run_dots,
    stage_graphs,
    waterfall,
)
from iqcar.tables import texts

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
