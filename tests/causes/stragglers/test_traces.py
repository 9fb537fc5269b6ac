"""Traces of other systems: any table with job, task, latency and metrics, however damaged."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.stragglers.find_stragglers import explain
from iqcar.errors import IqcarError, UsageError
from iqcar.lab.traces import trace_columns
from iqcar.lab.traces.trace_columns import TraceColumns
from iqcar.lab.traces.trace_survey import features_of, read_trace
from iqcar.lab.traces.trace_topic_search import TraceStream

GOOGLE = """collection_id,instance_index,machine_id,start_time,end_time,average_usage_cpus,maximum
1,0,m1,0,10,0.1,0.2
1,1,m1,0,11,0.1,0.2
1,2,m2,0,10,0.1,0.2
1,3,m2,0,12,0.1,0.3
1,4,m2,0,60,0.9,0.3
"""
ALIBABA = """instance_name,task_name,job_name,start_time,end_time,machine_id,cpu_avg,mem_avg
a,M1,j1,100,110,m1,1,5
b,M1,j1,100,110,m1,1,5
c,M1,j1,100,112,m2,1,5
d,M1,j1,100,111,m2,1,5
e,M1,j1,100,170,m2,1,40
f,R2,j1,170,171,m1,9,9
"""


def write(tmp_path: Path, text: str, name: str = "trace.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_google_like_trace_is_read_by_its_names(tmp_path: Path) -> None:
    features = read_trace(write(tmp_path, GOOGLE), TraceColumns.parse("unit=s"))
    assert [f.name for f in features.features] == ["average_usage_cpus", "maximum"]
    assert features.column("duration_ms").tolist() == [10e3, 11e3, 10e3, 12e3, 60e3]
    found = explain(features)
    assert found.causes["cause"].tolist() == ["average_usage_cpus"]
    assert found.labels.task(4, 4) == "4"
    assert found.labels.host(int(found.stragglers["host"].iloc[0])) == "m2"


def test_an_alibaba_like_trace_joins_two_columns_to_a_job(tmp_path: Path) -> None:
    columns = TraceColumns.parse("job=job_name+task_name,task=instance_name,unit=s")
    features = read_trace(write(tmp_path, ALIBABA), columns)
    found = explain(features)
    assert found.labels.stages == ["j1/M1", "j1/R2"]
    assert found.causes["cause"].tolist() == ["mem_avg"]
    assert found.labels.task(int(found.stragglers["task"].iloc[0]), 0) == "e"
    assert found.stragglers["launch_ms"].tolist() == [100e3]
    assert "8.0 × the mean" in found.causes["sentence"].iloc[0]


def test_a_hadoop_like_trace_can_name_times_and_use_our_features(tmp_path: Path) -> None:
    text = "Job Name,Task ID,Elapsed,gc_ms,shuffle,input_bytes,note\n" + "".join(
        f"j,t{i},{time},{gc},{shuffle},64000000,x\n"
        for i, (time, gc, shuffle) in enumerate([(1000, 20, 100)] * 6 + [(4000, 30, 2600)])
    )
    columns = TraceColumns.parse("times=gc_ms+shuffle,metrics=input_bytes")
    features = read_trace(write(tmp_path, text), columns)
    assert {f.name: str(f.kind) for f in features.features} == {
        "input_bytes": "numerical", "gc_ms": "time", "shuffle": "time",
    }  # fmt: skip
    (sentence,) = explain(features).causes["sentence"]
    assert sentence.startswith("shuffle 65 % of its time, 6.5 × the mean")


def test_parquet_and_gzip_hold_the_same_trace(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    plain = write(tmp_path, GOOGLE)
    zipped = tmp_path / "trace.csv.gz"
    zipped.write_bytes(gzip.compress(GOOGLE.encode()))
    parquet = tmp_path / "trace.parquet"
    pd.read_csv(plain).to_parquet(parquet)
    frames = [read_trace(path).frame for path in (plain, zipped, parquet)]
    for frame in frames[1:]:
        pd.testing.assert_frame_equal(frame, frames[0])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "does not start with a line of column names"),
        (b"\n\n", "does not start with a line of column names"),
        (b"job,latency\n", "no task has both a job and a latency"),
        (b"a,b\n1,2\n", "no column tells what tasks are compared within"),
        (b"job,b\n1,2\n", "no column tells how long a task took"),
        (b"job,latency\n1,x\n,5\n", "no task has both a job and a latency"),
        (b"job,latency\n1,-5\n1,inf\n1,1e999\n", "no task has both a job and a latency"),
        (b"\x00\xff\xfe\x89PNG\r\n\x1a\n" * 50, "trace.csv"),
        (b'job,latency\n"1,2\n' * 3, "trace.csv"),
        (b"x" * (2**20 + 5), "does not start with a line of column names"),
    ],
)
def test_rubbish_is_one_clear_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(IqcarError, match=r"trace\.csv") as caught:
        read_trace(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


def test_an_index_that_pandas_wrote_takes_no_column_away(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"job": ["a", "b", "a"], "latency": [1.0, 2.0, 3.0], "m": [1, 2, 3]})
    plain, kept = tmp_path / "plain.parquet", tmp_path / "kept.parquet"
    table.to_parquet(plain, index=False)
    table.set_index("job").to_parquet(kept)
    frames = [read_trace(path).frame for path in (plain, kept)]
    pd.testing.assert_frame_equal(*frames)


def test_a_file_that_is_missing_a_folder_or_no_parquet_is_one_clear_line(tmp_path: Path) -> None:
    broken = tmp_path / "x.parquet"
    broken.write_bytes(b"PAR1 nonsense")
    bad_gz = tmp_path / "x.csv.gz"
    bad_gz.write_bytes(b"no gzip at all")
    for path in (tmp_path / "missing.csv", tmp_path, broken, bad_gz):
        with pytest.raises(IqcarError) as caught:
            read_trace(path)
        assert "\n" not in str(caught.value)


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_columns, "MAX_BYTES", 1000)
    bomb = tmp_path / "x.csv.gz"
    bomb.write_bytes(gzip.compress(b"job,latency\n" + b"1,2\n" * 10_000))
    with pytest.raises(IqcarError, match="larger than"):
        read_trace(bomb)
    monkeypatch.undo()
    monkeypatch.setattr(trace_columns, "MAX_ROWS", 3)
    with pytest.raises(IqcarError, match="more than 3 rows"):
        read_trace(write(tmp_path, GOOGLE))


def test_rows_that_are_longer_than_the_header_move_no_column(tmp_path: Path) -> None:
    features = read_trace(write(tmp_path, "job,latency\nj,2,7\nj,3,8\n"))
    assert features.column("duration_ms").tolist() == [2, 3]


@pytest.mark.parametrize(
    "text",
    ["nonsense", "job=", "=x", "unit=h", "job=nothing", "metrics=a+nothing", "latency=nothing"],
)
def test_columns_that_do_not_exist_are_a_usage_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        read_trace(write(tmp_path, GOOGLE), TraceColumns.parse(text))


def test_what_was_left_out_is_said(tmp_path: Path) -> None:
    text = "job,latency,debt,words,host\nj,1,-1,a,h\nj,2,5,b,h\n,3,1,c,h\nj,,1,d,h\n"
    features = read_trace(write(tmp_path, text))
    assert len(features.frame) == 2
    assert "2 of 4 rows have no job or no latency" in features.doubts[0]
    assert "debt, words: no numbers of 0 or more" in features.doubts[1]


_cells = st.one_of(
    st.sampled_from(["", "nan", "inf", "-1", "1e400", "0", "5", "é\x1b[31m", "true"]),
    st.floats(allow_nan=True).map(str),
)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_whole_numbers_that_are_names_stay_whole_where_one_is_missing(
    tmp_path: Path, name: str
) -> None:
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"job": pd.array([7, None, 8], "Int64"), "latency": 1.0, "m": [1, 2, 3]})
    path = tmp_path / name
    table.to_csv(path, index=False) if name == "t.csv" else table.to_parquet(path)
    assert read_trace(path).labels.stages == ["7", "8"] == TraceStream.open(path).layout.jobs


@given(st.lists(st.tuples(_cells, _cells, _cells, _cells), max_size=15))
def test_any_cells_make_features_or_one_clear_line(rows) -> None:
    table = pd.DataFrame(rows, columns=["job", "latency", "m", "host"])
    columns = TraceColumns(job=("job",), latency="latency", host="host", metrics=("m",))
    try:
        features = features_of(table, columns, "x.csv")
    except IqcarError as error:
        assert "\n" not in str(error)
        return
    found = explain(features)
    assert np.isfinite(features.column("duration_ms")).all()
    assert set(found.causes["cause"]) <= {"m", "slow-host"}


def test_a_metric_named_like_our_own_columns_stays_a_metric(tmp_path: Path) -> None:
    text = "job,latency,measured,stage_rows\n" + "j,1,1,1\n" * 5 + "j,9,9,9\n"
    features = read_trace(write(tmp_path, text))
    assert not features.frame["measured"].any()
    assert set(explain(features).causes["cause"]) == {"measured", "stage_rows"}
