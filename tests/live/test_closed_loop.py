"""The loop on simulated clusters: relief comes, stays, goes with its reason, and never swings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iqcar.live.rule_loop import Action, Limits
from tests.support.live_cluster import STEP_MS, live, query

pytestmark = pytest.mark.slow

SECOND = 1000.0


def reports(until: float, every: float, rng: np.random.Generator):
    """Short queries of four tasks that come all the time, with noise in when and how long."""
    at = 0.0
    while at < until:
        yield "report", query(round(at), np.round(rng.uniform(200, 400, 4)))
        at += every * rng.uniform(0.8, 1.2)


def etl(start: float, end: float, rng: np.random.Generator):
    """An intruder: a run of twelve tasks of about a second every four seconds."""
    for at in np.arange(start, end, 4 * SECOND):
        yield "etl", query(float(at), np.round(rng.uniform(800, 1200, 12)))


@pytest.mark.parametrize("seed", [0, 1])
def test_an_intruder_that_comes_and_goes_is_held_back_without_oscillation(
    tmp_path: Path, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    comes, goes, again = 30 * SECOND, 90 * SECOND, 180 * SECOND
    queries = [
        *reports(240 * SECOND, 2 * SECOND, rng),
        *etl(comes, goes, rng),
        *etl(again, 240 * SECOND, rng),
    ]
    queries.sort(key=lambda one: one[1].start)
    (tmp_path / "loop").mkdir()
    story = live(queries, tmp_path / "loop", 280 * SECOND)
    alone = live(queries, tmp_path, 0.0, act=False)
    written = story.of(Action.WRITE)
    assert written and comes < written[0] <= comes + 6 * STEP_MS
    late = (written[0] + 2 * STEP_MS, goes)
    assert story.mean_ms("report", *late) < 0.6 * alone.mean_ms("report", *late)
    # Each rule is written at most once for each visit, and taken back only between them.
    for name in {what for _, _, what in story.changes}:
        assert len(story.of(Action.WRITE, name)) <= 2
    assert all(goes < at for at in story.of(Action.TAKE_BACK))


def test_changing_load_does_not_make_rules_swing(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    queries = [
        *reports(100 * SECOND, 2 * SECOND, rng),
        *((n, q) for n, q in reports(200 * SECOND, 4 * SECOND, rng) if q.start > 100 * SECOND),
        *etl(10 * SECOND, 200 * SECOND, rng),
    ]
    queries.sort(key=lambda one: one[1].start)
    story = live(queries, tmp_path, 200 * SECOND)
    assert story.of(Action.WRITE) and not story.of(Action.TAKE_BACK)


def test_a_quiet_cluster_gets_no_rule(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    queries = [
        *reports(150 * SECOND, 2 * SECOND, rng),
        *(("nightly", query(at, [900.0])) for at in np.arange(0.0, 150 * SECOND, 7 * SECOND)),
    ]
    queries.sort(key=lambda one: one[1].start)
    story = live(queries, tmp_path, 150 * SECOND, slots=16)
    assert story.changes == []


def test_limits_hold_in_a_storm_of_intruders(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    queries = [*reports(150 * SECOND, 2 * SECOND, rng)]
    for number in range(4):
        start = (10 + 10 * number) * SECOND
        queries += [(f"{n}{number}", q) for n, q in etl(start, start + 60 * SECOND, rng)]
    queries.sort(key=lambda one: one[1].start)
    limits = Limits(wins=2, of_windows=4, max_rules=1, max_changes_per_hour=4)
    story = live(queries, tmp_path, 150 * SECOND, limits=limits)
    done = [what for _, what, _ in story.changes if what != Action.REFUSE.value]
    assert story.most_rules == 1 and 1 <= len(done) <= 4


def test_an_intruder_behind_which_nobody_ends_is_seen(tmp_path: Path) -> None:
    """First in, first out behind one run of a minute: no victim ends in any window."""
    rng = np.random.default_rng(6)
    queries = [*reports(60 * SECOND, 2 * SECOND, rng), ("etl", query(10 * SECOND, [1000.0] * 240))]
    queries.sort(key=lambda one: one[1].start)
    story = live(queries, tmp_path, 60 * SECOND)
    assert story.of(Action.WRITE)[0] <= 10 * SECOND + 6 * STEP_MS
