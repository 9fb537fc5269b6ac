"""Answers questions about a comparison: what tells runs apart, how much they vary.

Runs are told apart by what tasks did (bytes, spill, each part of the time), partitions, hosts,
Spark version and settings. With few runs many parameters separate the sides equally well: the
answer names them all, and whoever reads it can leave one out and ask again.

Paper: Spectroscope | §5.5: explanation | its text; the first question of the tree |
  tests/comparison/test_explore.py
Paper: Spectroscope | §5.4: C² | exact |
  tests/comparison/test_explore.py
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.units import duration, size
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.comparison_tables import MEASURES
from iqcar.comparison.sides import Side, settings_of
from iqcar.errors import UsageError, did_you_mean
from iqcar.tables import TableSpec, texts
from iqcar.tables.arrays import Flags, Floats, Ints, sum_by
from iqcar.tables.declarations import declare

EXPLAINED = "time_ms"
"""The measure that is explained, and no parameter therefore."""
VERSION, HOSTS = "spark.version", "host names"
"""Parameters that are no measures and no settings."""
NOT_SET = "not set"
"""Value of a setting that a run did not set."""


Show = Callable[[str, float | str], str]
EQUAL = 1e-9
"""Gains that differ by less are equal: they are sums of the same logarithms."""


class Split(NamedTuple):
    """The question about a parameter that best tells the runs after from those before."""

    parameter: str
    value: float | str
    """A number: is the parameter above it? A text: is it this?"""
    gain: float
    """Information about the side that the answer gives, in bits."""
    equally_good: tuple[str, ...]
    """Other parameters with the same gain, the clearest first: the runs cannot tell them."""
    sentence: str
    """The answer that the larger share of the runs after gave, and how many of either side did."""


class Explanation(NamedTuple):
    """What tells the runs of one category after from those before."""

    category: int
    parameters: pd.DataFrame
    """One row per run, before and after; a column per parameter, and `side`."""
    split: Split | None
    """None where nothing separates the sides."""


def explain_category(
    comparison: Comparison, category: int, without: Sequence[str] = ()
) -> Explanation:
    """Explain the change of one category.

    Raises UsageError if a parameter to leave out does not exist.
    """
    parameters = run_parameters(comparison, category)
    side = parameters["side"].to_numpy(np.int64)
    asked = parameters.drop(columns=["side", "run"])
    return Explanation(category, parameters, best_split(asked, side, without, shown))


class _Cut(NamedTuple):
    parameter: str
    value: float | str
    gain: float
    gap: float  # between the parts, over the whole range: how clear the cut is
    yes: Flags
    known: Flags


def best_split(
    parameters: pd.DataFrame,
    side: Ints,
    leave_out: Collection[str] = (),
    show: Show = lambda _, value: str(value),
) -> Split | None:
    """Find the parameter that tells the sides apart best; None where none does.

    ``parameters``: one row per run, one column per parameter: numbers, or texts; NaN and None are
    unknown. What differs in every run by nature, such as ids and times of day, must not be among
    them. ``side``, (n_runs,): 0 before, 1 after. ``show``: writes a value of a parameter. Raises
    UsageError if a parameter to leave out does not exist; names the nearest.
    """
    names = sorted(str(name) for name in parameters.columns)
    for name in leave_out:
        if name not in names:
            advice = did_you_mean(name, names, "see --explain without it")
            raise UsageError(f"there is no parameter {name!r}", "--without", advice)
    after = np.asarray(side) == 1
    cuts = [
        cut
        for name in names
        if name not in set(leave_out)
        if (cut := _best_cut(name, parameters[name], after)) is not None
    ]
    if not cuts:
        return None
    most = max(cut.gain for cut in cuts)
    best, *others = sorted(
        (cut for cut in cuts if cut.gain >= most - EQUAL), key=lambda cut: (-cut.gap, cut.parameter)
    )
    return Split(
        best.parameter, best.value, best.gain, tuple(cut.parameter for cut in others),
        _sentence(best, after, show),
    )  # fmt: skip


def _best_cut(name: str, column: pd.Series, after: Flags) -> _Cut | None:
    """The question about one parameter that tells most; None if there is nothing to gain."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        values = column.to_numpy(np.float64)
        known = ~np.isnan(values)
        distinct = np.unique(values[known])
        # A mean can round to the upper value, above which nothing would be then.
        asked: list[float | str] = np.minimum(
            distinct[:-1] / 2 + distinct[1:] / 2, np.nextafter(distinct[1:], -np.inf)
        ).tolist()
        gaps = (np.diff(distinct) / (distinct[-1] - distinct[0])).tolist() if asked else []
        answers = [values > value for value in asked]
    else:
        known = column.notna().to_numpy(bool)
        texts_of = np.array([str(value) for value in column], object)
        asked = sorted(set(texts_of[known]))
        gaps = [1.0] * len(asked)
        answers = [known & (texts_of == value) for value in asked]
    cuts = [
        _Cut(
            name, value, gain=_gain(yes[known], after[known]) * float(known.mean()), gap=gap,
            yes=yes, known=known,
        )
        for value, gap, yes in zip(asked, gaps, answers, strict=True)
    ]  # fmt: skip
    # Of two texts either is as telling: that of the runs after, else the first.
    best = max(
        cuts,
        key=lambda cut: (round(cut.gain, 9), cut.gap, int((cut.yes & after).sum())),
        default=None,
    )
    return best if best is not None and best.gain > EQUAL else None


def _gain(yes: Flags, after: Flags) -> float:
    """Bits about the side that an answer gives; what is unknown tells nothing (Quinlan 1993)."""
    inside = yes.mean() * _bits(after[yes]) + (~yes).mean() * _bits(after[~yes])
    return _bits(after) - float(inside)


def _bits(flags: Flags) -> float:
    share = float(flags.mean()) if len(flags) else 0.0
    return -sum(p * float(np.log2(p)) for p in (share, 1 - share) if p > 0)


def _sentence(cut: _Cut, after: Flags, show: Show) -> str:
    """Say the typical answer, and how many runs of either side gave it, of those that know."""
    sides = (cut.known & after, cut.known & ~after)
    mostly = cut.yes[sides[0]].mean() > cut.yes[sides[1]].mean()
    gave = [int((cut.yes[side] == mostly).sum()) for side in sides]
    if isinstance(cut.value, str):
        verb = "is" if mostly else "is not"
    else:
        verb = "is above" if mostly else "is at most"
    return (
        f"{cut.parameter} {verb} {show(cut.parameter, cut.value)} in {gave[0]} of "
        f"{int(sides[0].sum())} runs after and {gave[1]} of {int(sides[1].sum())} before"
    )


def shown(parameter: str, value: float | str) -> str:
    """Write a value of a parameter with its unit."""
    if isinstance(value, str):
        return value
    if parameter.endswith("_ms"):
        return duration(value)
    return size(value) if parameter.endswith("bytes") else f"{value:,.4g}"


def run_parameters(comparison: Comparison, category: int) -> pd.DataFrame:
    """Return one row per run of a category: side, run, and every parameter.

    A measure that is 0 in all runs, and a text that is the same in all, tell nothing and are left
    out. Of a baseline, settings are those of all its runs together.
    """
    runs = comparison.category_runs
    here = runs[runs["category"].to_numpy() == category]
    names = [*(name for name, *_ in MEASURES if name != EXPLAINED), "bytes_max_over_mean"]
    measures = here[names].astype(np.float64)
    kept = [name for name in names if (measures[name].fillna(0) != 0).any()]
    of_runs = [_texts_of_runs(side) for side in comparison.sides]
    rows = [
        of_runs[side].get(run, {})
        for side, run in zip(here["side"].tolist(), here["run"].tolist(), strict=True)
    ]
    told = {}
    for key in sorted({key for row in rows for key in row}):
        setting = key not in (VERSION, HOSTS)
        values = [row.get(key, NOT_SET if row and setting else None) for row in rows]
        if len(set(values)) > 1:
            told[key] = pd.Series(values, here.index, dtype=object)
    parameters: pd.DataFrame = here[["side", "run"]].assign(
        **{name: measures[name] for name in kept}, **told
    )
    return parameters.reset_index(drop=True)


def _texts_of_runs(side: Side) -> dict[int, dict[str, str]]:
    """Return settings, version and hosts of each run of a side."""
    facts = side.facts
    if side.tables is None or side.rows is None:
        whole = {key: " or ".join(values) for key, values in facts.settings.items()}
        for key, names in ((VERSION, facts.versions), (HOSTS, facts.hosts)):
            if len(names) == 1:
                whole[key] = names[0]
        return dict.fromkeys(range(facts.runs), whole)
    tables = side.tables
    app = tables.queries["app"].to_numpy(np.int64)
    run = side.rows.query_run
    query = tables.tasks["query"].to_numpy(np.int64)
    host = tables.tasks["host"].to_numpy(np.int64)
    known = np.flatnonzero((query >= 0) & (host >= 0))
    pairs = np.unique(np.column_stack([run[query[known]], host[known]]), axis=0)
    host_names, versions = texts(tables.hosts, "host"), texts(tables.applications, "spark_version")
    found: dict[int, dict[str, str]] = {}
    for number in range(facts.runs):
        apps = set(app[run == number].tolist())
        hosts = [host_names[row] for run_of, row in pairs.tolist() if run_of == number]
        found[number] = {
            **{key: " or ".join(values) for key, values in settings_of(tables, apps).items()},
            VERSION: " or ".join(sorted({versions[app] for app in apps})),
            HOSTS: ", ".join(sorted(hosts)),
        }
    return found


def find_change(comparison: Comparison, wanted: str | int) -> int:
    """Return the category of a change: its rank, RANK.STAGE, or the name of a query.

    Raises UsageError if there is no such change.
    """
    rank, _, stage = str(wanted).partition(".")
    if not (rank.isdigit() and (stage == "" or stage.isdigit())):
        return comparison.find(str(wanted))
    changes = comparison.changes
    rows = changes["category"].to_numpy(np.int64)[changes["rank"].to_numpy() == int(rank)]
    place = int(stage or 0)
    if place >= len(rows):
        count = int(changes["rank"].max()) if len(changes) else 0
        raise UsageError(
            f"there is no change {wanted}",
            "--explain",
            f"there are {count}; 1.2 is the second stage of the first" if count else "",
        )
    return int(rows[place])


VARIATION = TableSpec(
    "variation",
    "One row per category: C² = (σ/μ)² of its times on either side; above 1 is high.",
    declare(
        ("category", "int32", "row", "The category."),
        ("runs_c2_before", "float64", "", "Over its runs before; NaN for fewer than two."),
        ("runs_c2_after", "float64", "", "Over its runs after."),
        ("tasks_c2_before", "float64", "", "Over a stage's tasks before; NaN of a baseline."),
        ("tasks_c2_after", "float64", "", "Over a stage's tasks after."),
    ),
)


def find_variation(comparison: Comparison) -> pd.DataFrame:
    """Return :data:`VARIATION` of all categories."""
    n = len(comparison.categories)
    runs = comparison.category_runs
    columns: dict[str, Floats | Ints] = {"category": np.arange(n)}
    for number, word in ((0, "before"), (1, "after")):
        here = runs[runs["side"].to_numpy() == number]
        columns[f"runs_c2_{word}"] = variation(
            here["category"].to_numpy(np.int64), here["time_ms"].to_numpy(np.float64), n
        )
        category, time = task_times(comparison.sides[number], comparison.category_of[number])
        columns[f"tasks_c2_{word}"] = variation(category, time, n)
    return VARIATION.frame(columns)


def variation(category: Ints, value: Floats, n: int) -> Floats:
    """Return the squared coefficient of variation C² = (σ/μ)² of every category.

    Over runs it shows what runs of equal work differ by: contention, and what else changes from run
    to run. Over the tasks of a stage it shows how unevenly its work is divided.

    ``category``, (n_rows,): number of the category, < ``n``. ``value``, (n_rows,): durations or
    bytes, ≥ 0; NaN is left out. ``n``: number of categories. Returns (n,): with the unbiased
    variance; NaN for fewer than two values or a mean of 0. Above 1
    is high: an exponential distribution has 1; of fewer than ten values it is unreliable.
    """
    known = np.isfinite(value)
    category, value = category[known], value[known]
    order = np.lexsort((value, category))  # sums do not depend on the order of rows
    category, value = category[order], value[order]
    count = np.bincount(category, minlength=n)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sum_by(category, value, n) / count
        relative = value / mean[category] - 1
        c2 = sum_by(category, relative**2, n) / (count - 1)
    return np.where((count > 1) & (mean > 0), c2, np.nan)


def task_times(side: Side, category_of: Ints) -> tuple[Ints, Floats]:
    """Return stage category and duration of every task; nothing of a baseline."""
    if side.tables is None or side.rows is None:
        return np.zeros(0, np.int64), np.zeros(0)
    stage = side.tables.tasks["stage"].to_numpy(np.int64)
    node = np.append(side.rows.stage_node, -1)[stage]
    launch, finish = (
        side.tables.tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms")
    )
    rows = np.flatnonzero(node >= 0)
    return category_of[node[rows]], (finish - launch)[rows]
