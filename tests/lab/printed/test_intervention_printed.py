"""The causal model of reading times as printed: equations 1 and 2, and what interventions do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.errors import UsageError
from iqcar.model.waits.columns import WAITS
from iqcar.replay.whatif.question import ask
from iqcar.tables import QUERIES, STAGES, TASKS, Tables
from iqcar_lab.clusters.frames import frame
from iqcar_lab.printed.intervention import LAWS, BayesianNetwork, printed_what_if

SHARE = 0.7
"""A of eq. 2 in the tasks below."""


def replicas(n: int, seed: int, noise: float = 0.0) -> dict[str, np.ndarray]:
    """Tasks of one stage that follow figure 1 and eq. 2."""
    rng = np.random.default_rng(seed)
    values = {
        "disk_congestion": rng.uniform(0, 1, n),
        "network_congestion": rng.uniform(0, 1, n),
        "data_size": rng.uniform(1e6, 5e6, n),
        "cpu": rng.uniform(1e-4, 3e-4, n),
    }
    values["disk_time"] = 1e-5 + 4e-5 * values["disk_congestion"]
    values["network_time"] = 2e-5 + 1e-5 * values["network_congestion"]
    values["rate_data_in"] = values["disk_time"] + values["network_time"]
    s, r, c = (values[name] for name in ("data_size", "rate_data_in", "cpu"))
    values["reading_time"] = s * r + s * c * SHARE + noise * rng.standard_normal(n)
    return values


def test_equation_2_is_fitted_by_least_squares() -> None:
    exact = BayesianNetwork.fit(replicas(40, 1))
    assert exact.coefficients["reading_time"] == pytest.approx([SHARE])
    assert exact.coefficients["disk_time"] == pytest.approx([1e-5, 4e-5])
    noisy = BayesianNetwork.fit(replicas(4000, 2, noise=20.0))
    assert noisy.coefficients["reading_time"] == pytest.approx([SHARE], rel=0.01)
    assert noisy.variance["reading_time"] == pytest.approx(400.0, rel=0.1)


def test_setting_a_variable_moves_what_follows_from_it_and_nothing_else() -> None:
    """Like input A of the circuit: its own causes say nothing of it any more (§1)."""
    seen = replicas(40, 4)
    network = BayesianNetwork.fit(seen)
    after = network.do(seen, {"disk_time": np.zeros(40)})
    assert (after["disk_congestion"] == seen["disk_congestion"]).all()
    assert after["rate_data_in"] == pytest.approx(seen["network_time"])
    saved = seen["data_size"] * seen["disk_time"]
    assert seen["reading_time"] - after["reading_time"] == pytest.approx(saved)
    idle = network.do(seen, {"disk_congestion": np.zeros(40)})
    assert idle["disk_time"] == pytest.approx(np.full(40, 1e-5))
    assert (idle["network_time"] == seen["network_time"]).all()


def test_a_variable_that_nobody_recorded_has_no_arrows() -> None:
    seen = replicas(40, 5)
    del seen["disk_congestion"]
    network = BayesianNetwork.fit(seen)
    assert network.laws["disk_time"].parents == ()
    assert network.coefficients["disk_time"] == pytest.approx([seen["disk_time"].mean()])
    assert network.coefficients["reading_time"] == pytest.approx([SHARE])


def run_of(values: dict[str, np.ndarray]) -> tuple[Tables, object]:
    """Two queries of one stage each, whose tasks are those of `replicas`, half of them each."""
    n = len(values["data_size"])
    half = np.arange(n) * 2 // n
    tasks = frame(
        TASKS, n, stage=half, query=half, host=np.zeros(n), status=["success"] * n,
        input_bytes=values["data_size"], remote_bytes=np.zeros(n), local_bytes=np.zeros(n),
        launch_ms=np.zeros(n), finish_ms=values["reading_time"], run_ms=values["reading_time"],
        cpu_ms=values["cpu"] * values["data_size"], shuffle_write_ms=np.zeros(n),
    )  # fmt: skip
    waits = frame(
        WAITS, n, io_read_ms=values["disk_time"] * values["data_size"],
        shuffle_fetch_ms=values["network_time"] * values["data_size"], run_queue_ms=np.zeros(n),
    )  # fmt: skip
    queries = frame(QUERIES, 2, query_id=["sql-0", "sql-1"], name=["etl", "dash"])
    return Tables.empty().with_(tasks=tasks, queries=queries, stages=frame(STAGES, 2)), waits


def test_questions_about_a_run_are_answered_by_query() -> None:
    values = replicas(40, 6)
    tables, waits = run_of(values)
    found = printed_what_if(tables, waits, ask(disk="2x"))
    assert found["tasks"].tolist() == [20, 20]
    assert found["model_ms"].tolist() == pytest.approx(found["recorded_ms"].tolist())
    saved = (values["data_size"] * values["disk_time"] / 2).reshape(2, -1).sum(axis=1)
    assert (found["recorded_ms"] - found["predicted_ms"]).tolist() == pytest.approx(saved)
    scaled = printed_what_if(tables, waits, ask(scale=["dash=3x"]))
    ratio = scaled["predicted_ms"] / scaled["recorded_ms"]
    assert ratio.tolist() == pytest.approx([1.0, 3.0])
    assert (scaled["low_ms"] <= scaled["predicted_ms"]).all()
    with pytest.raises(UsageError, match="no variable of the printed model"):
        printed_what_if(tables, waits, ask(slots="+8"))
    with pytest.raises(UsageError, match="no query is called"):
        printed_what_if(tables, waits, ask(scale=["nobody=2x"]))


@given(st.permutations(range(12)))
def test_the_order_of_tasks_changes_nothing(order: list[int]) -> None:
    seen = replicas(12, 7, noise=20.0)
    mixed = {name: column[order] for name, column in seen.items()}
    one, other = BayesianNetwork.fit(seen), BayesianNetwork.fit(mixed)
    for name in LAWS:
        assert other.coefficients[name] == pytest.approx(one.coefficients[name])
        assert other.variance[name] == pytest.approx(one.variance[name], rel=1e-9, abs=1e-18)
