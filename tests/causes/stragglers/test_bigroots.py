"""BigRoots: equal to the paper's equations, and true to what they mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from iqcar.causes.stragglers.find_stragglers import explain
from iqcar.causes.stragglers.root_causes import ComparedTasks, find_marks
from iqcar.causes.stragglers.straggler_result import StragglerSettings
from iqcar.errors import UsageError
from tests.support.naive_bigroots import EQUATIONS, NaiveTask, pearson, root_causes, stragglers
from tests.support.pearson_baseline import PccSettings, correlation, pcc_marks
from tests.support.random_features import AMOUNT, BUSY, KINDS, LISTED, SPENT, features_of, tasks

# Thresholds that no ratio of small numbers hits: equality is a matter of rounding, not of rules.
PAPER = replace(
    EQUATIONS,
    straggler=1.4999, quantile=0.8001, ratio=1.4142, edge=0.4999, floor=0.2003,
)  # fmt: skip


def found(of: list[NaiveTask], settings: StragglerSettings = PAPER) -> set[tuple[int, str]]:
    features = features_of(of)
    compared = ComparedTasks.from_features(features, settings)
    marks = find_marks(features, compared, settings)
    rows = compared.rows[marks.task].tolist()
    names = [features.features[p].name for p in marks.feature.tolist()]
    return set(zip(rows, names, strict=True))


@given(tasks())
def test_the_causes_are_those_of_the_papers_equations(of: list[NaiveTask]) -> None:
    alone = {n for n, t in enumerate(of) if sum(u.stage == t.stage for u in of) < 2}
    naive = root_causes(
        of, KINDS, straggler=1.4999, quantile_=0.8001, ratio=1.4142, edge=0.4999, floor=0.2003
    )
    assert found(of) == {(n, name) for n, name in naive if n not in alone}


@given(tasks())
def test_stragglers_are_those_above_1_5_medians(of: list[NaiveTask]) -> None:
    compared = ComparedTasks.from_features(features_of(of), PAPER)
    assert compared.rows[compared.straggler].tolist() == stragglers(of, 1.4999)


@given(tasks(), st.randoms(use_true_random=False))
def test_the_order_of_tasks_changes_nothing(of: list[NaiveTask], random) -> None:
    order = list(range(len(of)))
    random.shuffle(order)
    shuffled = {(order[row], name) for row, name in found([of[n] for n in order])}
    assert shuffled == found(of)


@given(tasks())
def test_only_stragglers_have_causes(of: list[NaiveTask]) -> None:
    assert {row for row, _ in found(of)} <= set(stragglers(of, 1.4999))


@given(tasks(), st.sampled_from([2.0**-20, 0.25, 1024.0, 2.0**40]))
def test_the_unit_of_an_amount_changes_nothing(of: list[NaiveTask], scale: float) -> None:
    scaled = [
        replace(t, features={**t.features, "amount": t.features["amount"] * scale}) for t in of
    ]
    assert found(scaled) == found(of)


@given(tasks(), st.sampled_from([2.0**-10, 8.0, 1024.0]))
def test_the_unit_of_time_changes_nothing(of: list[NaiveTask], scale: float) -> None:
    scaled = [
        replace(
            t,
            duration=t.duration * scale,
            features={**t.features, "spent_ms": t.features["spent_ms"] * scale},
        )
        for t in of
    ]
    assert found(scaled) == found(of)


@given(tasks(), st.sampled_from([0.0, 1.0, 7.5, 1e9]), st.sampled_from(list(KINDS)))
def test_a_feature_that_is_the_same_for_all_is_never_a_cause(
    of: list[NaiveTask], value: float, name: str
) -> None:
    assume(name != "spent_ms")
    same = [
        replace(t, features={**t.features, name: value}, edges={"busy": (1e12, 1e12)}) for t in of
    ]
    assert name not in {cause for _, cause in found(same)}


@given(tasks(), st.sampled_from(list(KINDS)))
def test_what_is_missing_is_never_a_cause(of: list[NaiveTask], name: str) -> None:
    unknown = [replace(t, features={**t.features, name: float("nan")}) for t in of]
    assert name not in {cause for _, cause in found(unknown)}


@given(tasks())
def test_a_host_that_was_idle_on_both_sides_is_no_cause(of: list[NaiveTask]) -> None:
    idle = [replace(t, edges={"busy": (0.0, float("nan"))}) for t in of]
    assert "busy" not in {cause for _, cause in found(idle)}


@given(tasks())
def test_our_additions_only_take_causes_away(of: list[NaiveTask]) -> None:
    ours = replace(PAPER, least_tasks=4, least_peers=2, worth=True)
    assert found(of, ours) <= found(of)


@given(tasks())
def test_every_cause_is_told_with_numbers_that_agree(of: list[NaiveTask]) -> None:
    result = explain(features_of(of), PAPER)
    causes = result.causes
    assert len(result.stragglers) == len(stragglers(of, 1.4999))
    assert (result.stragglers["delay_ms"].to_numpy() > 0).all()
    assert (np.diff(result.stragglers["delay_ms"]) <= 0).all()
    counted = causes.groupby("straggler").size().reindex(result.stragglers.index, fill_value=0)
    assert counted.tolist() == result.stragglers["causes"].tolist()
    assert not causes.duplicated(["straggler", "cause"]).any()
    compared = causes[causes["ratio"].notna()]
    assert (compared["ratio"] > PAPER.ratio).all()
    assert (compared["value"] > compared["quantile"]).all()
    assert (causes["sentence"].str.len() > 10).all()


def stage(*durations: float, hosts: int = 1, **columns: list[float]) -> list[NaiveTask]:
    n = len(durations)
    nothing = [float("nan")] * n
    plain = {f.name: columns.get(f.name, nothing) for f in LISTED}
    edges = columns.get("edges", [(1.0, 1.0)] * n)
    return [
        NaiveTask(
            0, i % hosts, durations[i], {k: v[i] for k, v in plain.items()}, {"busy": edges[i]}
        )
        for i in range(n)
    ]


OURS = StragglerSettings()


def test_the_task_that_reads_nine_times_as_much_is_skewed_and_says_so() -> None:
    of = stage(10_000, 10_000, 10_000, 10_000, 95_000, amount=[45e6] * 4 + [412e6])
    result = explain(features_of(of), OURS)
    assert result.causes["cause"].tolist() == ["amount"]
    assert result.causes["sentence"].iloc[0] == (
        "amount 412.0 MB, 9.2 × the mean of its stage's other tasks on its host (45.0 MB)"
    )
    assert result.stragglers["median_ms"].tolist() == [10_000]


def test_twice_almost_nothing_is_a_cause_only_for_the_paper() -> None:
    of = stage(1000, 1000, 1000, 1000, 9000, amount=[1000.0] * 4 + [4000.0])
    assert found(of) == {(4, "amount")}
    assert found(of, OURS) == set()


def test_a_time_below_the_floor_is_no_cause() -> None:
    below = stage(10, 10, 10, 10, 100, spent_ms=[0, 0, 0, 0, 19.0])
    above = stage(10, 10, 10, 10, 100, spent_ms=[0, 0, 0, 0, 21.0])
    assert found(below) == set()
    assert found(above) == {(4, "spent_ms")}


def test_a_busy_host_is_a_cause_and_a_task_that_is_the_load_itself_is_not() -> None:
    busy = [0.3, 0.3, 0.3, 0.3, 0.9]
    for edges, causes in (
        ((0.9, 0.1), {(4, "busy")}),
        ((0.1, 0.9), {(4, "busy")}),
        ((0.1, 0.1), set()),
        ((float("nan"), float("nan")), set()),
    ):
        of = stage(10, 10, 10, 10, 100, busy=busy, edges=[edges] * 5)
        assert found(of, OURS) == causes
        assert found(of, replace(OURS, edge=0.0)) == {(4, "busy")}


def test_peers_on_the_same_host_count_for_themselves() -> None:
    # All of host 1 reads much; only beside those of its own host the straggler is like the rest.
    of = stage(10, 10, 10, 10, 10, 40, hosts=2, amount=[1, 9, 1, 9, 1, 10.0])
    assert found(of) == {(5, "amount")}
    result = explain(features_of(of), replace(PAPER))
    assert result.causes["peers"].tolist() == ["on other hosts"]


def test_locality_is_a_cause_only_where_normal_tasks_are_near_their_data() -> None:
    near = stage(10, 10, 10, 10, 100, locality=[0, 0, 1, 0, 2.0])
    far = stage(10, 10, 10, 10, 100, locality=[2, 2, 1, 0, 2.0])
    assert found(near) == {(4, "locality")}
    assert found(far) == set()


def test_a_straggler_that_nothing_explains_is_put_down_to_a_slow_host() -> None:
    of = stage(10, 30, 10, 28, 10, 26, 10, 10, hosts=2)
    of[7].host = 0
    result = explain(features_of(of), OURS)
    assert set(result.causes["cause"]) == {"slow-host"}
    assert "1.5 ×" not in result.causes["sentence"].iloc[0]
    assert len(explain(features_of(of), replace(OURS, slow_hosts=False)).causes) == 0


def test_small_stages_have_no_stragglers_unless_asked_for() -> None:
    of = stage(10, 10, 100)
    assert len(explain(features_of(of), OURS).stragglers) == 0
    assert "no stage has enough tasks" in explain(features_of(of), OURS).doubts[0]
    assert len(explain(features_of(of), PAPER).stragglers) == 1


@given(tasks())
def test_pearsons_coefficient_is_that_of_its_definition(of: list[NaiveTask]) -> None:
    features = features_of(of)
    compared = ComparedTasks.from_features(features, PAPER)
    for feature in (AMOUNT, SPENT, BUSY):
        rho = correlation(compared, compared.value(features, feature))
        for number, row in zip(compared.stage.tolist(), compared.rows.tolist(), strict=True):
            kept = [of[r] for r in compared.rows.tolist()]
            expected = pearson(kept, of[row].stage, feature.name, str(feature.kind))
            assert rho[number] == pytest.approx(expected, abs=1e-6)


@given(tasks())
def test_the_baseline_marks_only_large_values_of_correlated_features(of: list[NaiveTask]) -> None:
    features = features_of(of)
    compared = ComparedTasks.from_features(features, PAPER)
    marks = pcc_marks(features, compared, PccSettings(0.5, 0.8))
    assert (np.abs(marks.ratio) > 0.5).all()
    assert (marks.value > marks.quantile).all()
    assert compared.straggler[marks.task].all()


def test_settings_are_read_and_rubbish_is_refused() -> None:
    read = StragglerSettings.parse("ratio=2.5,least_tasks=3,worth=true,evidence=measured")
    assert (read.ratio, read.least_tasks, read.worth, str(read.evidence)) == (
        2.5, 3, True, "measured",
    )  # fmt: skip
    assert StragglerSettings.parse("") == StragglerSettings()
    for text in (
        "nonsense", "paper", "ratio", "ratio=", "ratio=x", "ratio=nan", "ratio=0.5", "ratio=inf",
        "quantile=2", "floor=-1", "least_tasks=1.5", "worth=maybe", "evidence=guess", "edge_ms=0",
        "=3", "ratio=1e999",
    ):  # fmt: skip
        with pytest.raises(UsageError):
            StragglerSettings.parse(text)
