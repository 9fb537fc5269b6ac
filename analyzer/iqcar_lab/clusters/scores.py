"""Score blame on every family of simulated clusters, loud and quiet, by every measure.

Every query of a loud run is a target: how the others are ranked against what removing them gains,
how much the query is said to have lost against what the others cost it. On quiet runs nobody lost
anything. A ranking cannot be better than the same run with other sizes of tasks predicts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from iqcar.replay.alone import blame_run
from iqcar_lab.clusters.quiet import LOUD, QUIET, Plans, Run, amounts_of, said, with_noise
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.steady import STEADY, twins
from iqcar_lab.clusters.truth import (
    FAMILIES,
    GUILTY,
    Case,
    Score,
    costs_of_others,
    gains_of_removals,
    lost_to_each,
    score,
)
from iqcar_lab.printed.iqcar import printed_shares

OTHER_LUCK = 50_000
"""Distance of the seeds of one run and of the same run with other sizes of tasks."""


VICTIM = 0.2
"""Share of its run from which a query that lost it must not be overlooked."""
MISSED = 1 / 3
"""A victim is overlooked if less than this part of its loss is said."""
NEAR = 0.01
"""A range holds the truth if it is within this share of the run."""
LOSSY = 0.02
"""Share of its run from which a loss, true or said, counts for ranges: that nothing holds nothing
is no news."""
NOISE = 0.3
Build = Callable[[int], Plans]


@dataclass(frozen=True)
class Family:
    """How a run of each seed is made, where something is short and where nothing is."""

    group: str
    loud: Build | None
    quiet: Build | None


def _families() -> dict[str, Family]:
    found = {}
    for name, plans in FAMILIES.items():
        found[name] = Family(
            "culprits",
            lambda seed, name=name, plans=plans: plans(np.random.default_rng([seed, len(name)])),
            None,
        )
    for name in (*QUIET, *(name for name in LOUD if name not in QUIET)):
        loud, quiet = (
            None
            if name not in of
            else lambda seed, name=name, of=of, kind=kind: of[name](
                np.random.default_rng([seed, 7, len(name), kind])
            )
            for kind, of in ((True, LOUD), (False, QUIET))
        )
        found[f"{name} (varies)"] = Family("varies", loud, quiet)
    for name in STEADY:
        found[name] = Family(
            "steady",
            lambda seed, name=name: twins(name, seed).loud,
            lambda seed, name=name: twins(name, seed).quiet,
        )
    return found


EVERY: dict[str, Family] = _families()


@dataclass(frozen=True)
class Answer:
    """What a method says of a run: shares of each query's duration, and to whom they went.

    Attributes
    ----------
    said, low, high : ndarray of shape (n_queries,)
        Lost to other queries, and the range that it lies in; empty if the method names no amount.
    lost : ndarray of shape (n_queries, n_queries)
        Elapsed ms that each query (row) lost to each other (column).
    """

    said: np.ndarray
    low: np.ndarray
    high: np.ndarray
    lost: np.ndarray


def by_blame(run: Run) -> Answer:
    """What blame says, and its range; one of one number where no replay tells."""
    blame = blame_run(run.tables, run.waits)[0]
    found = said(blame, run.tables)
    low = high = found
    if blame.cost is not None:
        ran = run.tables.queries["duration_ms"].to_numpy()
        low = np.fmin(blame.cost.low_ms / ran, found)
        high = np.fmax(blame.cost.high_ms / ran, found)
    return Answer(found, low, high, lost_to_each(blame, run.tables))


def by_print(run: Run) -> Answer:
    """What iQCAR as printed says: DOR, a share of all blame."""
    ran, unsaid = run.tables.queries["duration_ms"].to_numpy(), np.empty(0)
    shares = printed_shares(run.tables, run.waits, range(len(ran)))
    return Answer(unsaid, unsaid, unsaid, shares * ran[:, None])


@dataclass(frozen=True, eq=False)
class Scene:
    """A simulated run: as logs say it, with the plugin's records and without, and its truth.

    ``cases`` and ``other_luck`` have a place for each query as target; empty on quiet clusters.
    """

    measured: Run
    plain: Run
    cases: tuple[Case, ...] = ()
    other_luck: tuple[dict[int, float], ...] = ()

    def run(self, plain: bool) -> Run:
        """What a plain log says, or one with the plugin's records."""
        return self.plain if plain else self.measured


@cache
def scene(family: str, seed: int, loud: bool) -> Scene:
    """Simulate a run, and again without each of its queries, and each alone."""
    build = EVERY[family].loud if loud else EVERY[family].quiet
    assert build is not None
    cluster, plans = build(seed)
    run = Simulation(cluster, plans, seed)
    cost = costs_of_others(run)
    measured = Run(family, *replayable(run, sampled=True), cost)
    plain = Run(family, *replayable(run, plain=True), cost)
    if not loud:
        return Scene(measured, plain)
    cases = [
        Case(family, measured.tables, measured.waits, q, gains)
        for q, gains in enumerate(gains_of_removals(run))
    ]
    other = gains_of_removals(Simulation(cluster, plans, seed + OTHER_LUCK))
    return Scene(measured, plain, tuple(cases), tuple(other))


@dataclass(frozen=True)
class Scores:
    """Scores of some runs; shares, NaN where there is nothing to score.

    ``ranks`` and ``luck``: how sources are ranked, and how other luck ranks them. ``missed``: of
    ``victims``, those of whose loss less than a third was said. ``held``: of the queries that lost
    something, or are said to, those whose loss is within their range, of this mean ``width``. The
    last four are what is said on quiet clusters, without and with noise.
    """

    ranks: Score
    luck: Score
    true: float
    said: float
    slope: float
    error: float
    victims: int
    missed: float
    held: float
    width: float
    quiet_mean: float
    quiet_worst: float
    noisy_mean: float
    noisy_worst: float


@dataclass
class _Heard:
    """What was said of some runs, and their truth."""

    ranked: list[tuple[Case, dict[int, float], dict[int, float]]]
    amounts: list[np.ndarray]
    quiet: list[np.ndarray]
    noisy: list[np.ndarray]

    def scores(self) -> Scores:
        """Score all of it."""
        guesses = {id(case): (said, luck) for case, said, luck in self.ranked}
        cases = [case for case, _, _ in self.ranked if max(case.gains.values()) >= GUILTY]
        nothing = Score(np.nan, np.nan, np.nan, 0)
        ranks, luck = (
            score(cases, lambda case, which=which: guesses[id(case)][which]) if cases else nothing
            for which in (0, 1)
        )
        guess, low, high, truth = np.concatenate([np.empty((4, 0)), *self.amounts], axis=1)
        victim = truth >= VICTIM
        held = (low - NEAR <= truth) & (truth <= high + NEAR)
        lossy = np.fmax(guess, truth) >= LOSSY
        quiet, noisy = (np.concatenate([np.empty(0), *part]) for part in (self.quiet, self.noisy))
        found = amounts_of(guess, truth)
        return Scores(
            ranks, luck, _mean(truth), found.mean, found.slope, found.error, int(victim.sum()),
            _mean(guess[victim] < MISSED * truth[victim]), _mean(held[lossy]),
            _mean((high - low)[lossy]),
            _mean(quiet), _most(quiet), _mean(noisy), _most(noisy),
        )  # fmt: skip


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else np.nan


def _most(values: np.ndarray) -> float:
    return float(values.max()) if len(values) else np.nan


def _hear(family: str, seed: int, plain: bool, says: Callable[[Run], Answer]) -> _Heard:
    heard = _Heard([], [], [], [])
    if EVERY[family].loud:
        at = scene(family, seed, True)
        run = at.run(plain)
        answer = says(run)
        duration = run.tables.queries["duration_ms"].to_numpy()
        for case, other in zip(at.cases, at.other_luck, strict=True):
            luck = {q: max(gain, 0.0) * duration[case.target] for q, gain in other.items()}
            heard.ranked.append((case, dict(enumerate(answer.lost[case.target])), luck))
        if len(answer.said):
            heard.amounts.append(np.array([answer.said, answer.low, answer.high, run.cost]))
    if EVERY[family].quiet:
        run = scene(family, seed, False).run(plain)
        heard.quiet.append(says(run).said)
        heard.noisy.append(says(with_noise(run, NOISE, seed)).said)
    return heard


def _together(parts: Sequence[_Heard]) -> _Heard:
    every = ("ranked", "amounts", "quiet", "noisy")
    return _Heard(*([one for part in parts for one in getattr(part, name)] for name in every))


def family_scores(
    seeds: Iterable[int],
    families: Iterable[str] = tuple(EVERY),
    says: Callable[[Run], Answer] = by_blame,
    evidence: Iterable[bool] = (False, True),
) -> Iterator[tuple[bool, str, Scores]]:
    """Score families one by one, then each group of them, then all: evidence, name and scores.

    Parameters
    ----------
    evidence : iterable of bool
        Whether the logs are plain.
    says : callable
        The method that is scored.
    """
    seeds, families = list(seeds), list(families)
    for plain in evidence:
        heard = {}
        for name in families:
            heard[name] = _together([_hear(name, seed, plain, says) for seed in seeds])
            yield plain, name, heard[name].scores()
        groups = dict.fromkeys(EVERY[name].group for name in families)
        for group in (*groups, "all") if len(groups) > 1 else groups:
            chosen = [one for name, one in heard.items() if group in (EVERY[name].group, "all")]
            yield plain, f"all {group}" if group != "all" else group, _together(chosen).scores()
