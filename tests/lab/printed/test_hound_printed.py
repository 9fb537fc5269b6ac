"""Hound as printed: its tables from its tables, its formulas by hand, and whole runs."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.enums import BaseModel
from iqcar_lab.printed.hound import (
    COVERAGE,
    DOMINANT,
    ENSEMBLE,
    LEAST_TOPICS,
    PrintedEnsemble,
    PrintedModel,
    cluster_topics,
    coverage,
    documents,
    ensemble,
    lda,
    meta_learn,
    printed_topics,
    standardised,
    trim,
    vocabulary,
)
from tests.support.command import iqcar_lab
from tests.support.hound_traces import METRICS, features_from, plant
from tests.support.one_job_log import one_job_log

TABLE_14 = """
MEAN_MEM+ .36 PEAK_MEM+ .34 MEM_ASSIGN+ .3
PAGE_CACHE+ .55 PAGE_CACHE_UM+ .45
DISK_SPACE+ 1
MEM_ASSIGN+ 1
PEAK_CPU+ .55 MEAN_CPU+ .45
MEAN_IO+ .57 PEAK_IO+ .43
MEAN_CPU- 1
MEAN_MEM- 1
PEAK_IO- .66 MEAN_IO- .34
CACHE_MISS+ .55 CPI+ .45
SCHED_DELAY+ 1
EVICT+ 1
FAIL+ 1
"""
TABLE_15 = """
MEAN_MEM+ .36 PEAK_MEM+ .35 MEM_ASSIGN+ .29
PAGE_CACHE+ .44 PAGE_CACHE_UM+ .35 MEM_ASSIGN+ .21
DISK_SPACE+ 1
MEAN_CPU+ .57 PEAK_CPU+ .43
PEAK_IO+ .55 MEAN_IO+ .45
MEAN_CPU- .74 PEAK_CPU- .26
MEAN_MEM- 1
PEAK_MEM- .3 MEM_ASSIGN- .25 MEAN_MEM- .2 PAGE_CACHE_UM- .13 PAGE_CACHE- .12
MEAN_IO- 1
PEAK_IO- 1
CACHE_MISS+ .54 CPI+ .46
SCHED_DELAY+ 1
"""
TABLE_16 = """
PEAK_MEM+ .26 MEM_ASSIGN+ .23 MEAN_MEM+ .23 PAGE_CACHE+ .16 PAGE_CACHE_UM+ .12
PAGE_CACHE+ .36 PAGE_CACHE_UM+ .33 MEM_ASSIGN+ .31
DISK_SPACE+ 1
MEAN_CPU+ .55 PEAK_CPU+ .45
PEAK_IO+ .56 MEAN_IO+ .44
MEAN_CPU- 1
PEAK_CPU- .53 MEAN_CPU- .47
MEAN_MEM- 1
MEAN_IO- 1
CACHE_MISS+ .52 CPI+ .48
SCHED_DELAY+ 1
EVICT+ 1
MACHINE_RAM+ 1
"""
TABLE_4 = {
    "P0 P3 D0 C0": "MEM_ASSIGN+ .5 MEAN_MEM+ .25 PEAK_MEM+ .25",
    "P1 D1 C1": "PAGE_CACHE+ .45 PAGE_CACHE_UM+ .38 MEM_ASSIGN+ .17",
    "P2 D2 C2": "DISK_SPACE+ 1",
    "P4 D3 C3": "MEAN_CPU+ .52 PEAK_CPU+ .48",
    "P5 D4 C4": "PEAK_IO+ .51 MEAN_IO+ .49",
    "P6 D5 C5 C6": "MEAN_CPU- .8 PEAK_CPU- .2",
    "P7 D6 D7 C7": "MEAN_MEM- .83 PEAK_MEM- .17",
    "D8 C8": "MEAN_IO- 1",
    "P8 D9": "PEAK_IO- .83 MEAN_IO- .17",
    "P9 D10 C9": "CACHE_MISS+ .54 CPI+ .46",
    "P10 D11 C10": "SCHED_DELAY+ 1",
    "P11 C11": "EVICT+ 1",
}
"""Cluster, keywords and weights of E₀ to E₁₁. P₁₂ and C₁₂ are unclustered."""
E6 = "P7 D6 D7 C7"
"""Printed as .83 and .17: its members have .8 and .075, which η takes away."""

NAMES = {
    "Data Skew": "P0 P1 P2 P3 D0 D1 D2 C0 C1 C2",
    "Computation Skew": "P4 D3 C3",
    "I/O Skew": "P5 D4 C4",
    "Limited Processor": "P6 D5 C5 C6",
    "Limited Memory": "P7 D6 D7 C7",
    "Limited I/O": "P8 D8 D9 C8",
    "Cache Bottleneck": "P9 D10 C9",
}
"""Interpretations of tables 14 to 16."""
TABLE_17 = ("P0 .31 P2 .22 P1 .19 P4 .17 P8 .11", "D0 .27 D3 .26 D4 .25 D1 .22",
            "C3 .36 C0 .33 C4 .31")  # fmt: skip
TABLE_18 = ("P7 .55 P6 .45", "D5 .35 D6 .29 D7 .19 D10 .17", "C5 1")
"""Mixtures of jobs 6308689702 and 6343946350 by PR, DP and CA."""


def numbers(line: str) -> dict[str, float]:
    """Names with the number after each."""
    parts = line.split()
    return dict(zip(parts[::2], map(float, parts[1::2]), strict=True))


TOPICS = [[numbers(line) for line in t.strip().split("\n")] for t in (TABLE_14, TABLE_15, TABLE_16)]
WORDS = sorted({word for topics in TOPICS for topic in topics for word in topic})


@pytest.fixture(scope="module")
def google() -> list[PrintedModel]:
    """The initial topics of tables 14 to 16, and the two jobs of tables 17 and 18."""
    models = []
    for m, topics in enumerate(TOPICS):
        beta = np.array([[topic.get(word, 0.0) for word in WORDS] for topic in topics])
        theta = np.zeros((2, len(topics)))
        for job, table in enumerate((TABLE_17, TABLE_18)):
            for name, share in numbers(table[m]).items():
                theta[job, int(name[1:])] = share
        models.append(PrintedModel(beta, theta))
    return models


def named(members: list[tuple[int, int]]) -> str:
    return " ".join(f"{'PDC'[m]}{t}" for m, t in members)


def test_algorithm_4_makes_the_clusters_of_table_4_of_tables_14_to_16(google) -> None:
    clusters = {named(one) for one in cluster_topics(google)}
    assert clusters == {*TABLE_4, "P12", "C12"}
    assert {named(one) for one in ensemble(google).members} == set(TABLE_4)


def test_the_centroids_have_the_weights_of_table_4(google) -> None:
    found = ensemble(google)
    for members, weights in zip(found.members, found.topics, strict=True):
        mine = {word: float(w) for word, w in zip(WORDS, weights, strict=True) if w > 0}
        if named(members) == E6:
            assert mine == {"MEAN_MEM-": 1.0}
        else:
            assert mine == pytest.approx(numbers(TABLE_4[named(members)]), abs=0.012)


def causes_of(found: PrintedEnsemble, shares: np.ndarray) -> dict[str, float]:
    """A job's shares by interpretation, as table 17 adds them."""
    of_name = {one: name for name, of in NAMES.items() for one in of.split()}
    said: dict[str, float] = {}
    for members, share in zip(found.members, shares, strict=True):
        if share > 0:
            name = of_name[named(members).split()[0]]
            said[name] = said.get(name, 0.0) + float(share)
    return said


def test_means_over_the_models_are_those_of_tables_17_and_18(google) -> None:
    found = ensemble(google)
    first, second = (causes_of(found, row) for row in found.of_model.mean(axis=0))
    assert first == pytest.approx(
        {"Data Skew": 0.51, "Computation Skew": 0.26, "I/O Skew": 0.19, "Limited I/O": 0.04},
        abs=0.005,
    )
    # Table 18 has the names of the first two the other way round; table 5 has them like this.
    assert second == pytest.approx(
        {"Limited Processor": 0.6, "Limited Memory": 0.34, "Cache Bottleneck": 0.06}, abs=0.005
    )


def test_trimming_the_sums_gives_table_5(google) -> None:
    found = ensemble(google)
    first, second = (causes_of(found, row) for row in found.of_model.mean(axis=0))
    table_5 = {"Data Skew": 0.53, "Computation Skew": 0.27, "I/O Skew": 0.2}
    assert trim(np.array([[*first.values()]]))[0] == pytest.approx(
        [table_5.get(name, 0.0) for name in first], abs=0.01
    )
    table_5 = {"Limited Processor": 0.65, "Limited Memory": 0.35}
    assert trim(np.array([[*second.values()]]))[0] == pytest.approx(
        [table_5.get(name, 0.0) for name in second], abs=0.015
    )


def test_algorithm_4_trims_topics_so_that_disk_space_goes_first(google) -> None:
    found = ensemble(google)
    assert found.mixtures.sum(axis=1) == pytest.approx(1)
    # E₂ has 0.22 / 3; what is left of the job's 0.89 is rescaled.
    assert causes_of(found, found.mixtures[0]) == pytest.approx(
        {"Data Skew": 0.495, "Computation Skew": 0.296, "I/O Skew": 0.21}, abs=0.002
    )


TABLE_5 = np.array(
    [[1, 0, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 0],
     [0, 0, 0.65, 0.35, 0, 0, 0, 0], [0.53, 0, 0, 0, 0.27, 0.2, 0, 0],
     [0.33, 0.18, 0.12, 0, 0, 0, 0.25, 0.12]]
)  # fmt: skip
"""Data skew, queueing, processor, memory, computation and I/O skew, eviction, I/O."""


def test_coverage_of_the_six_jobs_is_what_the_text_says() -> None:
    data, _, processor, memory, *_ = coverage(TABLE_5)
    assert (data, memory) == pytest.approx((0.5, 1 / 6))
    assert processor == 0.5  # the text says 33.3 %
    dominant = coverage(TABLE_5, DOMINANT)
    assert (dominant[0], dominant[3]) == pytest.approx((1 / 3, 0))
    assert not (TABLE_5[5] > DOMINANT).any()  # "not every job has a dominant cause"


def test_each_metric_is_two_words_drawn_in_proportion_to_its_size() -> None:
    assert vocabulary(["APU", "QUD"]) == ["APU(+)", "APU(-)", "QUD(+)", "QUD(-)"]
    profiles = np.array([[-0.75, 0.25], [0.0, 0.0], [0.0, -1.0]])
    counts = documents(profiles, np.random.default_rng(0))
    assert counts.sum(axis=1).tolist() == [500, 0, 500]
    assert counts[0, [0, 3]].tolist() == [0, 0] and counts[2, 3] == 500
    # Of 500 draws, four standard deviations.
    assert counts[0, 1] == pytest.approx(375, abs=4 * np.sqrt(500 * 0.75 * 0.25))


def test_trimming_drops_what_weighs_less_and_rescales() -> None:
    trimmed = trim(np.array([[0.55, 0.36, 0.09], [0.1, 0.9, 0.0], [0.05, 0.05, 0.0]]))
    assert trimmed == pytest.approx(np.array([[55 / 91, 36 / 91, 0], [0.1, 0.9, 0], [0, 0, 0]]))


def test_metrics_that_recur_together_are_a_topic_with_the_jobs_that_have_it() -> None:
    """Figure 5: P₁ is APU(-) and PPU(-), P₂ is QUD(+)."""
    profiles = np.array([[-0.6, -0.4, 0.0], [0.0, 0.0, 1.0], [-0.18, -0.12, 0.7]] * 8)
    rng = np.random.default_rng(0)
    found = lda(documents(profiles, rng), 2, rng)
    topics, mixtures = trim(found.topics), trim(found.mixtures)
    p1 = int(topics[:, 1].argmax())
    assert topics[p1] == pytest.approx([0, 0.6, 0, 0.4, 0, 0], abs=0.03)
    assert topics[1 - p1] == pytest.approx([0, 0, 0, 0, 1, 0], abs=0.03)
    assert mixtures[:3, p1] == pytest.approx([1, 0, 0.3], abs=0.05)


def test_growing_ends_with_a_topic_of_too_few_jobs_which_is_in_the_output() -> None:
    found = meta_learn(np.tile(np.eye(7), (9, 1)), np.random.default_rng(1))
    assert len(found.topics) >= LEAST_TOPICS
    assert coverage(found.mixtures).min() < COVERAGE
    sums = np.concatenate([found.topics.sum(axis=1), found.mixtures.sum(axis=1)])
    assert np.isclose(sums, 1).sum() + (sums == 0).sum() == len(sums)


def test_jobs_that_say_nothing_have_no_topics() -> None:
    empty = meta_learn(np.zeros((3, 2)), np.random.default_rng(0))
    assert empty.topics.shape == (0, 4) and empty.mixtures.shape == (3, 0)
    found = ensemble([empty, empty, empty])
    assert found.mixtures.shape == (3, 0)


def test_a_topic_of_one_model_alone_is_no_cause() -> None:
    cpu, disk, fail = np.array([[0.7, 0.3, 0], [0.3, 0.7, 0], [0, 0, 1]])
    shares = np.array([[0.5, 0.5]])
    both = PrintedModel(np.array([cpu, fail]), shares)
    other = PrintedModel(np.array([cpu, disk]), shares)
    third = PrintedModel(np.array([cpu, disk]), np.array([[0.0, 1.0]]))
    found = ensemble([both, other, third])
    assert {named(one) for one in found.members} == {"P0 D0 C0", "D1 C1"}
    # 1/3 · (0.5 + 0.5 + 0) and 1/3 · (0 + 0.5 + 1): the rejected half of the first is lost.
    assert sorted(found.mixtures[0]) == pytest.approx([0.4, 0.6])


def strongest(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A quick learner: the three metrics that correlate most with latency."""
    found = standardised(x).T @ standardised(y)
    return np.where(np.abs(found) >= np.sort(np.abs(found))[-3], found, 0.0)


QUICK = dict.fromkeys(BaseModel, strongest)


def one_stage(durations: list[float]) -> TaskFeatures:
    tasks = {
        "stage": 0,
        "duration_ms": durations,
        **{m: np.arange(len(durations)) for m in METRICS},
    }
    return features_from(pd.DataFrame(tasks))


@pytest.mark.parametrize(
    ("durations", "jobs"),
    [([100.0] * 19 + [151.0], 1), ([100.0] * 19 + [150.0], 0), ([100.0] * 18 + [900.0], 0)],
)
def test_a_job_has_20_tasks_and_one_over_1_5_times_the_median(durations, jobs) -> None:
    seen = []
    printed_topics(one_stage(durations), QUICK, progress=lambda done, of: seen.append(of))
    assert len(seen) == jobs


@pytest.mark.long
def test_a_whole_trace_has_tables_like_the_papers() -> None:
    features = plant(24, 5).features
    found = printed_topics(features, QUICK, seed=2)
    again = printed_topics(features, QUICK, seed=2)
    assert found.topics.equals(again.topics) and found.mixtures.equals(again.mixtures)
    models = [ENSEMBLE, *map(str, BaseModel)]
    assert found.topics["model"].unique().tolist() == models
    assert found.topics.groupby(["model", "topic"])["weight"].sum().to_numpy() == pytest.approx(1)
    assert found.mixtures.groupby(["stage", "model"])["share"].sum().to_numpy() == pytest.approx(1)
    assert found.topics["weight"].min() >= 0.1 and found.mixtures["share"].min() >= 0.1
    of_models = found.topics[found.topics["model"] != ENSEMBLE]
    kept = of_models[of_models["cluster"] >= 0]
    assert (kept.groupby("cluster")["model"].nunique() > 1).all()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_of_one_job_every_topic_of_a_mixture_is_listed(seed: int, tmp_path: Path) -> None:
    log = one_job_log(random.Random(seed)).write(tmp_path / "app")
    words = ("printed", "topics", log, "--json", tmp_path / "topics.json")
    shown = iqcar_lab(*words)
    assert shown.returncode == 0, shown.stderr
    said = json.loads((tmp_path / "topics.json").read_text())["printed"]
    listed = {(one["model"], one["topic"]): one["keywords"] for one in said["topics"]}
    (stage,) = said["stages"]
    had = {(m, one["topic"]) for m, of in stage["mixtures"].items() for one in of}
    assert had <= listed.keys()
    wordless = {key for key, keywords in listed.items() if not keywords}
    assert wordless <= had
