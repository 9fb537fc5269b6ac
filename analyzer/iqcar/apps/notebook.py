"""What ``import iqcar`` offers: steps whose results draw themselves and answer questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar

import pandas as pd

from iqcar import diagnosis as data
from iqcar import pipeline
from iqcar.comparison import comparison as compared
from iqcar.comparison.comparison import Gate, check_gate
from iqcar.comparison.explore import (
    Explanation,
    explain_category,
    find_change,
    find_variation,
)
from iqcar.diagnosis import Progress, WhatIfs
from iqcar.model.waits.phases import phases_of
from iqcar.replay.whatif.curves import read_curves
from iqcar.replay.whatif.model import Model
from iqcar.replay.whatif.plan_capacity import Plan
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.removal_blame import RemovalBlame
from iqcar.replay.whatif.what_if import WhatIf
from iqcar.say.sections import losses_by_owner
from iqcar.show.html.plots import Plots, WhatIfPlots
from iqcar.show.pictures.comparison_plots import ComparisonPlots
from iqcar.show.pictures.notebook import comparison_html, notebook_html, what_if_html

P = ParamSpec("P")
Made = TypeVar("Made")
Shown = TypeVar("Shown")


@dataclass(frozen=True, repr=False, eq=False)
class Diagnosis(data.Diagnosis):
    """A diagnosis that draws itself in a notebook and answers what-if questions."""

    @property
    def plot(self) -> Plots:
        """Pictures: ``diagnosis.plot.sankey("q39b")``, ``.matrix()`` and more."""
        return Plots(self)

    def by(self, grouping: str) -> pd.DataFrame:
        """Sum lost time by whose queries lost it: :func:`iqcar.say.sections.losses_by_owner`.

        ``grouping``: ``user``, ``pool``, ``session``, ``application``, or a Spark property.
        """
        return losses_by_owner(self, grouping)

    def phases(self) -> pd.DataFrame:
        """Phases of tasks that the plugin profiled: :func:`iqcar.model.waits.phases.phases_of`."""
        return phases_of(self.tables)

    def with_curves(self, path: str) -> Diagnosis:
        """Return the same with what-if questions answered by measured own rates.

        path: a file that ``iqcar-lab experiment`` wrote.

        Raises UsageError if the file cannot be read or is no such file.
        """
        return replace(self, curves=tuple(read_curves(path).curves))

    @cached_property
    def _what_ifs(self) -> WhatIfs:
        return WhatIfs(self)

    @property
    def what_if_model(self) -> Model:
        """The causal model of the run (:attr:`iqcar.diagnosis.WhatIfs.model`)."""
        return self._what_ifs.model

    def what_if(
        self, question: Question | None = None, progress: Progress | None = None, **changes: Any
    ) -> ShownWhatIf:
        """Predict durations if something had been different: see :class:`iqcar.diagnosis.WhatIfs`.

        >>> diagnosis.what_if(remove="etl_heavy", slots=+8)     # doctest: +SKIP
        """
        return _shown(self._what_ifs.answer(question, progress, **changes), ShownWhatIf)

    def plan(
        self,
        *,
        executors: Iterable[int] | None = None,
        slots: Iterable[int] | None = None,
        price: float | None = None,
        progress: Progress | None = None,
    ) -> Plan:
        """Predict the run with numbers of executors or slots: :class:`iqcar.diagnosis.WhatIfs`."""
        return self._what_ifs.plan(executors=executors, slots=slots, price=price, progress=progress)

    def blame_by_removal(self, wanted: str, progress: Progress | None = None) -> RemovalBlame:
        """Find who made a query wait by replays without the others: Shapley values."""
        return self._what_ifs.blame_by_removal(wanted, progress)

    def _repr_html_(self) -> str:
        """Show the verdict in a notebook: sentences, bars of blame, doubts."""
        return notebook_html(self)


@dataclass(frozen=True, repr=False)
class ShownWhatIf(WhatIf):
    """An answer whose pictures are ``answer.plot.durations()``, ``.waits()``, ``.devices()``."""

    @property
    def plot(self) -> WhatIfPlots:
        """Pictures of the answer."""
        return WhatIfPlots(self)

    def _repr_html_(self) -> str:
        """Show in a notebook what it comes to, how far it can be trusted, and the durations."""
        return what_if_html(self)


@dataclass(frozen=True, repr=False)
class Comparison(compared.Comparison):
    """A comparison that draws itself in a notebook and answers questions."""

    @property
    def plot(self) -> ComparisonPlots:
        """Pictures: ``comparison.plot.waterfall()``, ``.stages("q5")``, ``.runs("q5")``, …"""
        return ComparisonPlots(self)

    def explain(self, change: str | int, without: Sequence[str] = ()) -> Explanation:
        """Find the parameter that best tells the runs of a change after from those before.

        ``change``: its rank; ``"1.2"`` for the second stage of the first; or the name of a query.
        ``without``: parameters not to ask for, such as that of the answer before. Raises UsageError
        if there is no such change or parameter.
        """
        return explain_category(self, find_change(self, change), without)

    def variation(self) -> pd.DataFrame:
        """Return C² of each category over its runs and over its tasks (``VARIATION``)."""
        return find_variation(self)

    def gate(self, *limits: str | float, new_plan: bool = False, strict: bool = False) -> Gate:
        """Tell whether no query on both sides got slower than allowed.

        ``limits``: 0.1, ``10%``, ``500ms`` or ``query=20%``. ``new_plan``: whether a query with
        another stage graph fails, too; ``strict``: and one of which nothing can be told.
        """
        return check_gate(self, limits, new_plan=new_plan, strict=strict)

    def _repr_html_(self) -> str:
        """Show totals, what differs and the largest changes in a notebook."""
        return comparison_html(self)


def _shown(made: Any, shown: Callable[..., Shown]) -> Shown:
    """Return a dataclass as one with more methods."""
    return shown(**{field.name: getattr(made, field.name) for field in fields(made)})


def _showing(step: Callable[P, Made], shown: Callable[..., Shown]) -> Callable[P, Shown]:
    """Make a step return its result as a class with more methods."""

    @wraps(step)
    def run(*args: P.args, **kwargs: P.kwargs) -> Shown:
        return _shown(step(*args, **kwargs), shown)

    return run


diagnose = _showing(pipeline.diagnose, Diagnosis)
compare = _showing(compared.compare, Comparison)
