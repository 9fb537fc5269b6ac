"""Plans and logs of injections: what is refused, what is read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iqcar.errors import IqcarError, UsageError
from iqcar_lab.inject.anomalies import MemorySettings, available_memory_bytes
from iqcar_lab.inject.plan import Injection, check_room, read_plan
from iqcar_lab.inject.run_plan import InjectionRecord, read_log

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
