"""What was recorded of a real Spark for the tests: small, whole, and of no machine."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.support import golden
from tests.support.listener_spark import App

MOST_BYTES = 1 << 20
"""Of all files together: everybody fetches them."""
OF_A_MACHINE = re.compile(rb"/(?:home|root|Users|work|tmp|opt)/")


def names() -> list[str]:
    return sorted(path.name.removesuffix(".tar.zst") for path in golden.GOLDEN.glob("*.zst"))


def test_each_file_has_the_hash_of_what_made_it_and_all_are_small() -> None:
    assert sorted(golden.hashes()) == names()
    assert sum(path.stat().st_size for path in golden.GOLDEN.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("name", names())
def test_nothing_recorded_tells_of_a_machine(name: str) -> None:
    assert OF_A_MACHINE.search(golden.unpacked(name)) is None


class Made:
    """Stands in for a run of Spark, and counts how often it is made."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, folder: Path) -> App:
        self.times += 1
        (folder / "log").mkdir()
        events = [
            {
                "Event": "SparkListenerEnvironmentUpdate",
                "System Properties": {"user.name": "me"},
                "JVM Information": {"Java Home": "/java"},
            },
            {"Event": "SparkListenerApplicationEnd", "path": f"{folder}/x", "time": self.times},
        ]
        (folder / "log" / "app-1").write_text("".join(json.dumps(one) + "\n" for one in events))
        return App(0, "said", "", events, folder / "log")


def test_a_run_is_made_anew_where_anything_that_made_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(golden.RECORD, raising=False)
    monkeypatch.setattr(golden, "GOLDEN", tmp_path / "golden")
    monkeypatch.setattr(golden, "HASHES", tmp_path / "golden" / "hashes.json")
    monkeypatch.setattr(golden, "build_jar", lambda: None)
    monkeypatch.setattr(golden, "spark_version", os.fspath)
    monkeypatch.setattr(golden.inspect, "getsource", lambda run: "source")
    made = Made()

    def left(settings: dict[str, str], spark: str = "4.0") -> App:
        golden.hashes.cache_clear()
        folder = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return golden.recorded_app("one", Path(spark), folder, made, settings)

    assert left({"a": "1"}).events[1]["time"] == 1
    monkeypatch.setenv(golden.RECORD, "yes")
    assert left({"a": "1"}).events[1]["time"] == 2
    monkeypatch.delenv(golden.RECORD)
    kept = left({"a": "1"})
    assert (made.times, kept.output, kept.events[0]["System Properties"]) == (2, "said", {})
    assert kept.events[1] == {
        "Event": "SparkListenerApplicationEnd", "path": "/run/x", "time": 2,
    }  # fmt: skip
    assert left({"a": "2"}).events[1]["time"] == 3
    assert left({"a": "1"}, spark="3.5").events[1]["time"] == 4
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(golden, "MADE_ANEW", "one")
    assert left({"a": "1"}).events[1]["time"] == 5
    golden.hashes.cache_clear()
