"""Compiled code reads of the plugin's records what the reader reads, or leaves them to it."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.logs.assemble.task_table import read_tables
from iqcar.logs.collect import Collector
from iqcar.logs.plugin.record_columns import FIELDS, OWNERS, SERIES, TEXTS, WAITS, RecordColumns
from iqcar.logs.tasks.record_scanner import RecordScanner
from iqcar.logs.tasks.task_lines import RECORD, TaskDecoder, record_at
from iqcar_lab.clusters.event_log import SyntheticLog, sql_update
from tests.support.examples import examples
from tests.support.plugin_record import plugin_record

NUMBERS = st.one_of(
    st.integers(0, 10**19),
    st.sampled_from([0, 10**14, 10**14 + 1, 10**17, 10**18 - 1, 10**18, 2**63, 2**64, 10**400]),
    st.integers(-5, 5),
    st.floats(),
    st.just(True),
    st.none(),
    st.text(max_size=3),
)
ODD_RUNS = (
    "007", "9" * 15, "9" * 16, "1*" + "0" * 14 + "1", "1*" + "9" * 16, "", "*", "1*", "-1", "*3",
    "1**2", " 1", "1.5", "\u0663", '"', "\\",
)  # fmt: skip
RUN = st.one_of(
    st.integers(0, 300).map(str),
    st.tuples(st.integers(0, 9), st.integers(0, 12)).map(lambda run: f"{run[0]}*{run[1]}"),
    st.sampled_from(ODD_RUNS),
)
ODD_OWNERS = (
    "1:5,",
    ":",
    "1",
    "1:5:7",
    "1:-5",
    "9" * 13 + ":1",
    "\u0663:1",
    ",".join(["1:5"] * 17),
)
OWNERS_TEXT = st.one_of(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 10**13)), max_size=5).map(
        lambda pairs: ",".join(f"{task}:{ms}" for task, ms in pairs)
    ),
    st.sampled_from(ODD_OWNERS),
    NUMBERS,
)
SERIES_TEXT = st.one_of(st.lists(RUN, max_size=4).map(",".join), NUMBERS)
KEYS = [one.key for one in FIELDS]


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    """The plugin's record, some of it changed, left out, unknown, or in another order."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    record = plugin_record(rng.randrange, rng.randrange(2 * 10**12), 1 + rng.randrange(9000))
    if draw(st.booleans()):
        record["pool"] = draw(st.text(max_size=5))
    if draw(st.booleans()):
        record[OWNERS] = draw(OWNERS_TEXT)
    if draw(st.booleans()):
        return record
    for key in draw(st.lists(st.sampled_from([*KEYS, "v", "host", *TEXTS, OWNERS]), max_size=3)):
        record[key] = draw(NUMBERS)
    for one in draw(st.lists(st.sampled_from(WAITS), max_size=3)):
        record["waits_ns"][one.key] = draw(NUMBERS)
    if "profile" in record:
        for key in draw(st.lists(st.sampled_from([*(s.key for s in SERIES), "gpu"]), max_size=3)):
            record["profile"][key] = draw(SERIES_TEXT)
        for key in draw(st.lists(st.sampled_from(["bucket_ms", "buckets"]), max_size=1)):
            record["profile"][key] = draw(NUMBERS)
    for key in draw(st.lists(st.sampled_from([*record, "later"]), max_size=2)):
        record.pop(key, None)
        if draw(st.booleans()):
            record[key] = draw(st.sampled_from([{}, {"x": 1}, [1], 7, "x"]))
    return dict(draw(st.permutations(list(record.items()))) if draw(st.booleans()) else record)


def carried(text: str) -> bytes:
    """The text of a record as Spark writes it among a task's accumulables."""
    quoted = json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return RECORD + quoted[1:] + b',"Value":"n=1","Internal":false},{"ID":7,"Name":"x"}]}'


def both(texts: list[bytes]) -> tuple[RecordColumns, RecordColumns, int]:
    """Records read by compiled code where it can, and by the reader alone; how many it could."""
    block = b"".join(text + b"\n" for text in texts)
    ends = np.cumsum([len(text) + 1 for text in texts]) - 1
    starts = ends - [len(text) for text in texts]
    whole = [record_at(block, *place) for place in zip(starts.tolist(), ends.tolist(), strict=True)]
    scanned, plain = RecordColumns(), RecordColumns()
    plain.add([(float(row), text) for row, text in enumerate(whole) if text])
    chunk, read = RecordScanner().scan(block, starts, ends, scanned.texts)
    left = [(row, whole[row]) for row in np.flatnonzero(~read).tolist() if whole[row]]
    scanned.add_scanned(chunk, np.arange(len(texts)) * 1.0, np.flatnonzero(read), left)
    return scanned, plain, int(read.sum())


def assert_same(texts: list[bytes]) -> int:
    """Compare all that was read, to the last bit; return how many records compiled code read."""
    *columns, read = both(texts)
    (ids, chunk), (other_ids, other) = (one.columns() for one in columns)
    np.testing.assert_array_equal(ids, other_ids)
    for name in ("numbers", "run_counts", "runs", "values", "owner_counts", "owners"):
        np.testing.assert_array_equal(getattr(chunk, name), getattr(other, name), err_msg=name)
    texts_of = [list(one.texts) for one in columns]
    codes = (chunk.texts.tolist(), other.texts.tolist())
    ours, theirs = ([t[c] for c in code] for t, code in zip(texts_of, codes, strict=True))
    assert ours == theirs
    return read


def compact(record: Any) -> str:
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


@given(st.integers(0, 2**32), st.lists(st.integers(1, 9000), min_size=1, max_size=5))
def test_the_plugins_own_records_are_all_read_by_compiled_code(seed: int, walls: list[int]) -> None:
    draw = random.Random(seed).randrange
    found = [plugin_record(draw, 1_700_000_000_000, wall) for wall in walls]
    assert assert_same([carried(compact(record)) for record in found]) == len(walls)


@given(st.lists(records(), min_size=1, max_size=4))
@examples(300)
def test_unusual_records_are_read_alike(found: list[dict[str, Any]]) -> None:
    assert_same([carried(compact(record)) for record in found])


@given(st.lists(records(), min_size=1, max_size=3), st.data())
@examples(300)
def test_damaged_records_are_read_alike(found: list[dict[str, Any]], data: st.DataObject) -> None:
    texts = []
    for record in found:
        text = bytearray(carried(compact(record)))
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(len(RECORD), len(text) - 1))
            if data.draw(st.booleans()):
                text[at] = data.draw(st.sampled_from(list(b'"\\{}[]:,*0123456789-ntx \xc3')))
            else:
                del text[at : at + data.draw(st.integers(1, 30))]
            if len(text) <= len(RECORD):
                break
        texts.append(bytes(text))
    assert_same(texts)


def everything() -> dict[str, Any]:
    """A record with every field, wait and series that there is, each with a number of its own."""
    number = iter(range(1, 1000))
    return {
        "v": 1,
        "host": "h",
        "executor": "1",
        **{one.key: next(number) for one in FIELDS},
        "waits_ns": {one.key: next(number) for one in WAITS},
        **{key: f"a {key}" for key in TEXTS},
        OWNERS: "17:820,23:40",
        "profile": {
            "bucket_ms": 10, "buckets": 9, **{one.key: f"0,{next(number)}*2" for one in SERIES}
        },
    }  # fmt: skip


@pytest.mark.parametrize("order", [1, -1])
def test_every_field_and_series_is_known_in_any_order(order: int) -> None:
    record = everything()
    record = dict(list(record.items())[::order])
    record["waits_ns"] = dict(list(record["waits_ns"].items())[::order])
    texts = [carried(compact(record))] * 2
    assert assert_same(texts) == 2
    found = both(texts)[0].columns()[1]
    assert np.isfinite(found.numbers).all()
    assert found.owners.tolist() == 2 * [[17, 820], [23, 40]]


@pytest.mark.parametrize("level", [None, "waits_ns", "profile"])
def test_a_key_that_comes_twice_is_left_to_the_reader(level: str | None) -> None:
    record = everything()
    inner = record if level is None else record[level]
    for key, value in inner.items():
        once, more = f'"{key}":{compact(value)}', f'"{key}":{compact(value)},'
        assert compact(record).count(once) >= 1
        assert assert_same([carried(compact(record).replace(once, more + once, 1))]) == 0


def test_records_stay_in_the_order_of_the_log_whoever_reads_them() -> None:
    """Of two records of a task the first counts, also where only the second one is usual."""
    draw = random.Random(1).randrange
    usual, odd = (plugin_record(draw, 5, 600) for _ in range(2))
    odd["pool"] = "caf\u00e9"
    odd[OWNERS], usual[OWNERS] = "2:5", "1:7"
    log = SyntheticLog(version=None)
    for task, record in ((1, odd), (1, usual), (2, usual), (2, odd)):
        carrier = {"ID": 0, "Name": "iqcar.task", "Update": compact(record), "Value": "n=1"}
        log.task(task, accumulables=[carrier, sql_update(1, "x", 2)])
    frames = []
    for scanner in (RecordScanner(), None):
        found = Collector()
        found.task_intake.scanner = scanner
        block = log.bytes()
        found.add(block, TaskDecoder().decode(block))
        frames.append(read_tables(found.task_records, pd.Series([1, 2], dtype="int64")))
    for one in frames:
        assert one.records["pool"].tolist() == ["caf\u00e9", ""]
        assert one.damaged == 0
    pd.testing.assert_frame_equal(frames[0].records, frames[1].records)
    pd.testing.assert_frame_equal(frames[0].intervals, frames[1].intervals)
    pd.testing.assert_frame_equal(frames[0].owners, frames[1].owners)
    assert frames[0].owners.to_numpy().tolist() == [[0, 1, 5], [1, 0, 7]]
