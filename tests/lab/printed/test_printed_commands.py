"""``iqcar-lab printed``: each paper's answer beside the product's own, on the same logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.causes.stragglers.test_stragglers_cli import skewed_log
from tests.causes.topics.test_topics_cli import STAGES, recurring_log
from tests.comparison.test_compare_cli import folder
from tests.support.command import iqcar, iqcar_lab
from tests.support.contended_log import contended_log

__all__ = ["folder"]


@pytest.mark.long
def test_hound_finds_the_topics_that_ours_finds(tmp_path: Path) -> None:
    log = recurring_log().write(tmp_path / "app-1")
    done = iqcar_lab("printed", "topics", log, "--json", tmp_path / "topics.json")
    assert done.returncode == 0, done.stderr
    assert "Hound as printed" in done.stdout
    printed = json.loads((tmp_path / "topics.json").read_text())["printed"]
    kept = [topic for topic in printed["topics"] if topic["model"] == "ensemble"]
    assert {"data skew: input", "garbage collection"} <= {topic["name"] for topic in kept}
    assert all(sum(topic["keywords"].values()) == pytest.approx(1) for topic in printed["topics"])
    assert len(printed["stages"]) == STAGES
    for stage in printed["stages"]:
        assert set(stage["mixtures"]) <= {"ensemble", "predictive", "dependence", "causal"}


@pytest.mark.slow
def test_bigroots_finds_the_straggler_that_ours_finds(tmp_path: Path) -> None:
    log = skewed_log().write(tmp_path / "app-1")
    done = iqcar_lab("printed", "stragglers", log, "--json", tmp_path / "out.json")
    assert done.returncode == 0, done.stderr
    assert "BigRoots as printed" in done.stdout
    (printed,) = json.loads((tmp_path / "out.json").read_text())["printed"]
    (ours,) = json.loads(iqcar("stragglers", log, "--json", "-").stdout)["stragglers"][0]["worst"]
    for name in ("app", "stage", "query_id", "host", "task", "duration_ms", "median_ms"):
        assert printed[name] == ours[name]
    (cause,) = printed["causes"]
    assert cause["feature"] == "read_bytes"
    assert cause["value"] / cause["peer_mean"] == pytest.approx(8.0)


@pytest.mark.long
def test_spectroscope_finds_the_query_that_got_slower(folder: Path) -> None:
    words = ("printed", "compare", folder / "before", folder / "slower")
    done = iqcar_lab(*words)
    assert done.returncode == 0, done.stderr
    assert "response-time" in done.stdout
    (found,) = json.loads(iqcar_lab(*words, "--json", "-").stdout)["printed"]
    assert found["query"] == "etl_load"
    assert (found["kind"], found["stages"]) == ("response-time", ["join"])


def test_the_causal_model_answers_changes_of_devices_only(tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "app-1")
    words = ("printed", "whatif", log, "--cpu", "2x")
    done = iqcar_lab(*words)
    assert "as printed" in done.stdout, done.stderr
    assert json.loads(iqcar_lab(*words, "--json", "-").stdout)["printed"] == []  # nothing is read
    assert iqcar_lab("printed", "whatif", log).returncode == 2
    assert iqcar_lab("printed", "whatif", log, "--slots", "+2").returncode == 2
