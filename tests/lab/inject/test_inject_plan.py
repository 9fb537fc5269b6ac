"""Plans and logs of injections: what is drawn, what is refused, what is read back."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from iqcar.base.processes import usable_cores
from iqcar.errors import IqcarError, UsageError
from iqcar_lab.commands.main import app
from iqcar_lab.inject.anomalies import (
    Anomaly,
    IoSettings,
    MemorySettings,
    Pattern,
    available_memory_bytes,
)
from iqcar_lab.inject.plan import InjectedHost, Injection, check_room, random_plan, read_plan
from iqcar_lab.inject.run_plan import InjectionRecord, read_log

MB = 1 << 20
CORES = usable_cores()


def schedule(*arguments: object) -> str:
    """What the command prints."""
    done = CliRunner().invoke(app, ["inject", "schedule", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


places = st.lists(
    st.sampled_from(["127.0.0.2", "127.0.0.3", "worker-4"]), min_size=1, unique=True
).map(
    lambda hosts: [InjectedHost(h, (CORES[i % len(CORES)],)) for i, h in enumerate(sorted(hosts))]
)
arguments = st.fixed_dictionaries(
    {
        "for_ms": st.integers(60_000, 600_000),
        "mean_length_ms": st.integers(100, 40_000),
        "mean_gap_ms": st.none() | st.integers(1000, 60_000),
    }
)
anomalies = st.lists(st.sampled_from(list(Anomaly)), min_size=1)


@given(st.integers(), places, anomalies, arguments, st.sampled_from(list(Pattern)))
def test_a_random_plan_keeps_its_bounds(
    seed: int, places: list[InjectedHost], kinds: list[Anomaly], given: Any, pattern: Pattern
) -> None:
    plan = random_plan(seed, places, kinds, pattern=pattern, **given)
    assert plan == random_plan(seed, places, kinds[::-1], pattern=pattern, **given)
    cores = {place.host: place.cores for place in places}
    for injection in plan:
        assert 0 <= injection.after_ms < injection.until_ms <= given["for_ms"]
        assert injection.for_ms <= max(100, 1.5 * given["mean_length_ms"]) + 1
        assert injection.anomaly in kinds
        assert injection.settings.cores == cores[injection.host]
    if pattern is not Pattern.MULTI_NODE:
        assert len({i.host for i in plan}) <= 1
    lanes = defaultdict(list)
    for injection in plan:
        kind = injection.anomaly if pattern is Pattern.MIXED else ""
        lanes[injection.host, kind].append(injection)
    for lane in lanes.values():
        assert all(a.until_ms <= b.after_ms for a, b in pairwise(lane))


@given(st.integers(), anomalies, arguments)
def test_another_host_changes_nothing_on_the_first(
    seed: int, kinds: list[Anomaly], given: Any
) -> None:
    alone = random_plan(seed, [InjectedHost("a")], kinds, **given)
    both = random_plan(seed, [InjectedHost("b"), InjectedHost("a")], kinds, **given)
    assert [i for i in both if i.host == "a"] == alone


def test_seeds_differ_and_mixed_anomalies_meet() -> None:
    def drawn(seed: int) -> list[Injection]:
        kinds = [Anomaly.CPU, Anomaly.IO]
        return random_plan(
            seed,
            [InjectedHost("a")],
            kinds,
            for_ms=600_000,
            mean_length_ms=20_000,
            pattern=Pattern.MIXED,
        )

    assert drawn(1) != drawn(2)
    assert any(b.after_ms < a.until_ms for a, b in combinations(drawn(1), 2))


def test_a_dry_run_prints_the_plan_that_plan_takes(tmp_path: Path) -> None:
    words = ["--seed", 7, "--hosts", f"127.0.0.2={CORES[0]}:{tmp_path};h3", "--kinds", "cpu,io"]
    words += ["--for", "10m", "--dry-run"]
    shown = [schedule(*words, "--json", "-") for _ in range(2)]
    assert shown[0] == shown[1]
    file = tmp_path / "plan.json"
    file.write_text(shown[0])
    plan = read_plan(str(file))
    assert [i.as_json() | {"settings": None} for i in plan] == [
        i | {"settings": None} for i in json.loads(shown[0])["injections"]
    ]
    assert {i.settings.folder for i in plan if isinstance(i.settings, IoSettings)} >= {
        str(tmp_path)
    }
    lines = schedule(*words).splitlines()
    assert len(lines) == len(plan) > 2


TABLE_4 = {
    "Slave1": [(0, 10, "cpu"), (100, 110, "io")],
    "Slave2": [(30, 40, "cpu"), (63, 73, "cpu"), (83, 93, "cpu")],
    "Slave3": [(99, 109, "io")],
    "Slave4": [(27, 37, "network"), (87, 97, "io"), (112, 122, "network")],
    "Slave5": [(33, 43, "io"), (53, 63, "cpu"), (69, 79, "io"), (100, 110, "cpu")],
}


def test_table_4_of_the_paper_can_be_said_as_a_plan(tmp_path: Path) -> None:
    rows = [(h, *row) for h, rows in TABLE_4.items() for row in rows]
    injections = [
        {"host": h, "anomaly": a, "after_ms": 1000 * t0, "for_ms": 1000 * (t1 - t0)}
        for h, t0, t1, a in rows
    ]
    file = tmp_path / "table4.json"
    file.write_text(json.dumps({"injections": injections}))
    plan = read_plan(str(file))
    said = {(i.host, i.after_ms / 1000, i.until_ms / 1000, str(i.anomaly)) for i in plan}
    assert said == set(rows)


def test_injections_that_are_too_much_together_are_refused() -> None:
    half = MemorySettings(size_bytes=available_memory_bytes() * 6 // 10)
    apart = [Injection("a", 0, 1000, half), Injection("b", 1000, 1000, half)]
    check_room(apart)
    with pytest.raises(UsageError, match="more than 80 %"):
        check_room([*apart, Injection("c", 500, 600, half)])


@pytest.mark.parametrize(
    "entry",
    [
        {"host": "a", "anomaly": "gpu", "after_ms": 0, "for_ms": 1000},
        {"host": "a", "anomaly": "cpu", "after_ms": -1, "for_ms": 1000},
        {"host": "a", "anomaly": "cpu", "after_ms": 0, "for_ms": 10**9},
        {"host": "", "anomaly": "cpu", "after_ms": 0, "for_ms": 1000},
        {"host": "a", "anomaly": "cpu", "after_ms": 0, "for_ms": 1000, "typo": 1},
        {"host": "a", "anomaly": "cpu", "after_ms": 0, "for_ms": 1, "settings": {}},
        *(
            {"host": "a", "anomaly": a, "after_ms": 0, "for_ms": 1000, "settings": s}
            for a, s in [
                ("cpu", {"sahre": 1}),
                ("cpu", {"share": "much"}),
                ("cpu", {"share": 2}),
                ("cpu", {"processes": 10**6}),
                ("io", {"rate_bytes_per_s": 0}),
                ("network", {"listen": "8.8.8.8"}),
                ("memory", {"size_bytes": -1}),
            ]
        ),
    ],
)
def test_an_impossible_plan_is_refused_with_its_place(entry: Any, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"injections": [entry]}))
    with pytest.raises(UsageError) as refused:
        read_plan(str(file))
    assert str(refused.value).startswith(str(file))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("line", ["{}", "nonsense", '{"version": 1}', "[" * 100_000])
def test_a_line_that_is_no_record_is_refused_with_its_number(line: str, tmp_path: Path) -> None:
    log = tmp_path / "truth.jsonl"
    record = InjectionRecord(1, "end", "r", 0, "cpu", "h", "m", 0, 1, 0, 1)
    log.write_bytes(record.line() + line.encode() + b"\n")
    with pytest.raises(IqcarError, match=rf"^{log}:2: "):
        read_log(str(log))
