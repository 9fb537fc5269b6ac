"""Explains a change by a tree of the parameters that best tell runs before from runs after.

Spectroscope's explanation of mutations (CMU-PDL-10-107, section 5.5) with C4.5 (Quinlan 1993): a
classification tree of before and after, although the report calls it a regression tree. Whoever
reads it can leave a parameter out and ask again. With few runs many parameters separate the sides
equally well and a tree has to pick one: each node therefore names the others.

Paper: Spectroscope | §5.5: explanation | exact; equals are named |
  tests/comparison/test_decision_tree.py
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.errors import UsageError, did_you_mean
from iqcar.tables.arrays import Flags, Floats, Ints

Show = Callable[[str, float | str], str]
MOST_DEPTH = 3
"""Questions on a path at most: runs that pass more are too few to say anything."""
EQUAL = 1e-9
"""Gain ratios that differ by less are equal: they are sums of the same logarithms."""


@dataclass(frozen=True)
class TreeNode:
    """A set of runs, and the question that divides it; a leaf has none."""

    before: int
    """Runs before."""
    after: int
    """Runs after."""
    parameter: str = ""
    """What is asked for; empty in a leaf."""
    value: float | str = ""
    """A number: is the parameter above it? A text: is it this?"""
    gain_ratio: float = 0.0
    """Information that the answer gives about the side, over the information in the answer."""
    equally_good: tuple[str, ...] = ()
    """Other parameters with the same gain ratio, the clearest first: the runs cannot tell them."""
    yes: TreeNode | None = None
    """Runs above the value, or with it."""
    no: TreeNode | None = None
    """The others; runs where the parameter is unknown are in the larger part."""
    sentences: tuple[str, str] = ("", "")
    """Both answers, with how many runs of either side gave them: yes, no."""

    @property
    def sentence(self) -> str:
        """The answer that the larger share of the runs after gave; empty in a leaf."""
        if self.yes is None or self.no is None:
            return ""
        return self.sentences[0 if _typical_of_after(self.yes, self) else 1]

    def explanations(self) -> tuple[tuple[str, ...], ...]:
        """Return the sentences on the path to each leaf that is typical of runs after.

        Each is an explanation of the change, independent of the others (section 5.5), that of most
        runs after first; there is none where nothing separates the sides.
        """
        if self.yes is None or self.no is None:
            return ()
        found = sorted(self._paths(self), key=lambda path: (-path[0], len(path[1]), path[1]))
        return tuple(sentences for _, sentences in found)

    def _paths(self, root: TreeNode) -> list[tuple[int, tuple[str, ...]]]:
        if self.yes is None or self.no is None:
            return [(self.after, ())] if _typical_of_after(self, root) else []
        return [
            (after, (sentence, *path))
            for branch, sentence in zip((self.yes, self.no), self.sentences, strict=True)
            for after, path in branch._paths(root)
        ]


def _typical_of_after(part: TreeNode, whole: TreeNode) -> bool:
    """Whether a part has a larger share of the runs after than of those before."""
    return part.after * max(whole.before, 1) > part.before * max(whole.after, 1)


class _Split(NamedTuple):
    parameter: str
    value: float | str
    gain: float
    ratio: float
    gap: float  # between the parts, over the whole range: how clear the split is
    yes: Flags
    known: Flags


def show_value(parameter: str, value: float | str) -> str:
    """Write a value of any parameter with up to four digits."""
    return value if isinstance(value, str) else f"{value:,.4g}"


def explain_change(
    parameters: pd.DataFrame,
    side: Ints,
    *,
    leave_out: Collection[str] = (),
    show: Show = show_value,
) -> TreeNode:
    """Find the parameters that tell the sides apart.

    ``parameters``: one row per run, one column per parameter: numbers, or texts; NaN and None are
    unknown. What differs in every run by nature, such as ids and times of day, must not be among
    them. ``side``, (n_runs,): 0 before, 1 after. ``leave_out``: parameters not to ask for: usually
    that of the root, to see the next explanation. ``show``: writes a value of a parameter for
    sentences. Returns a leaf where nothing separates the sides. Raises UsageError if a parameter to
    leave out does not exist; names the nearest.
    """
    names = sorted(str(name) for name in parameters.columns)
    for name in leave_out:
        if name not in names:
            advice = did_you_mean(name, names, "see --explain without it")
            raise UsageError(f"there is no parameter {name!r}", "--without", advice)
    columns = {name: _column(parameters[name]) for name in names if name not in set(leave_out)}
    after = np.asarray(side) == 1
    return _node(columns, after, np.arange(len(after)), MOST_DEPTH, show)


def _column(values: pd.Series) -> Floats | pd.Series:
    """Numbers as float64, anything else as text with None where unknown."""
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        return np.asarray(values, np.float64)
    text: pd.Series = values.astype(object).where(values.notna(), None)
    return text.map(lambda value: None if value is None else str(value)).reset_index(drop=True)


def _node(
    columns: dict[str, Floats | pd.Series], after: Flags, rows: Ints, depth: int, show: Show
) -> TreeNode:
    outcome = after[rows]
    runs = len(outcome) - int(outcome.sum()), int(outcome.sum())
    if not depth or 0 in runs:
        return TreeNode(*runs)
    splits = [
        split
        for name, column in columns.items()
        if (split := _best_split(name, column, rows, outcome)) is not None
    ]
    if not splits:
        return TreeNode(*runs)
    # C4.5: the ratio decides among tests of at least the mean gain; alone it likes tiny parts.
    mean = float(np.mean([split.gain for split in splits]))
    ratio = max(split.ratio for split in splits if split.gain >= mean - EQUAL)
    best, *others = sorted(
        (split for split in splits if split.gain >= mean - EQUAL and split.ratio >= ratio - EQUAL),
        key=lambda split: (-split.gap, split.parameter),
    )
    yes = np.where(best.known, best.yes, 2 * int(best.yes.sum()) > int(best.known.sum()))
    return TreeNode(
        *runs, parameter=best.parameter, value=best.value, gain_ratio=best.ratio,
        equally_good=tuple(split.parameter for split in others),
        yes=_node(columns, after, rows[yes], depth - 1, show),
        no=_node(columns, after, rows[~yes], depth - 1, show),
        sentences=(_sentence(best, True, outcome, show), _sentence(best, False, outcome, show)),
    )  # fmt: skip


def _best_split(name: str, column: Floats | pd.Series, rows: Ints, after: Flags) -> _Split | None:
    """The question about one parameter that tells most; None if there is nothing to gain."""
    if isinstance(column, np.ndarray):
        values = column[rows]
        known = ~np.isnan(values)
        distinct, place = np.unique(values[known], return_inverse=True)
        if len(distinct) < 2:
            return None
        count = np.bincount(place * 2 + after[known], minlength=2 * len(distinct)).reshape(-1, 2)
        total = count.sum(axis=0)
        above = total - np.cumsum(count, axis=0)[:-1]
        gain, ratio = _gains(above, total, len(rows))
        gaps = np.diff(distinct) / (distinct[-1] - distinct[0])
        best = max(range(len(gain)), key=lambda cut: (round(float(gain[cut]), 9), gaps[cut]))
        # A mean can round to the upper value, above which nothing would be then.
        value = min(
            distinct[best] / 2 + distinct[best + 1] / 2, np.nextafter(distinct[best + 1], -np.inf)
        )
        split = _Split(
            name, float(value), gain[best], ratio[best], gaps[best], yes=values > value, known=known
        )
    else:
        texts = column.iloc[rows].to_numpy(object)
        codes, distinct_texts = pd.factorize(texts, sort=True)
        known = codes >= 0
        if len(distinct_texts) < 2:
            return None
        count = np.bincount(codes[known] * 2 + after[known], minlength=2 * len(distinct_texts))
        with_it = count.reshape(-1, 2)
        gain, ratio = _gains(with_it, with_it.sum(axis=0), len(rows))
        # Of two values either is as telling: that of the runs after, else the first.
        best = max(
            range(len(gain)), key=lambda at: (round(float(gain[at]), 9), with_it[at, 1], -at)
        )
        split = _Split(
            parameter=name, value=str(distinct_texts[best]), gain=gain[best], ratio=ratio[best],
            gap=1.0, yes=codes == best, known=known,
        )  # fmt: skip
    return split if split.gain > EQUAL else None


def _gains(yes: Ints, total: Ints, rows: int) -> tuple[Floats, Floats]:
    """Information gain and gain ratio of every cut: counts before and after, (n_cuts, 2)."""
    no = total - yes
    known = total.sum()
    parts = np.stack([yes.sum(axis=1), no.sum(axis=1)], axis=1)
    inside = (parts[:, 0] * _entropy(yes) + parts[:, 1] * _entropy(no)) / known
    # What is unknown tells nothing (C4.5): gain counts for the share of known values.
    gain = (_entropy(total[None])[0] - inside) * known / rows
    unknown = np.full((len(parts), 1), rows - known)
    information = _entropy(np.concatenate([parts, unknown], axis=1))
    ratio = np.divide(gain, information, out=np.zeros(len(gain)), where=information > 0)
    return gain, ratio


def _entropy(count: Ints) -> Floats:
    """Bits of each row of counts: (n_rows, n_classes) → (n_rows,)."""
    share = count / np.maximum(count.sum(axis=1, keepdims=True), 1)
    logs = np.log2(share, out=np.zeros_like(share), where=share > 0)
    return np.asarray(-(share * logs).sum(axis=1))


def _sentence(split: _Split, is_yes: bool, after: Flags, show: Show) -> str:
    """Say an answer, and how many runs of either side gave it, of those that know."""
    gave = split.known & (split.yes == is_yes)
    if isinstance(split.value, str):
        verb = "is" if is_yes else "is not"
    else:
        verb = "is above" if is_yes else "is at most"
    return (
        f"{split.parameter} {verb} {show(split.parameter, split.value)}"
        f" in {int((gave & after).sum())} of {int((split.known & after).sum())} runs after"
        f" and {int((gave & ~after).sum())} of {int((split.known & ~after).sum())} before"
    )
