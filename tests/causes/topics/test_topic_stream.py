"""Traces read some jobs at a time: the same topics as from the whole, whatever the file's order."""

from __future__ import annotations

import gzip
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.topics.build_topics import find_topics
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.errors import IqcarError
from iqcar.lab.traces import trace_columns, trace_topic_search
from iqcar.lab.traces.trace_columns import TraceColumns, codes_of
from iqcar.lab.traces.trace_survey import read_trace
from iqcar.lab.traces.trace_topic_search import TraceStream, find_topics_in_trace
from tests.causes.topics.test_job_analysis import same
from tests.support.command import iqcar
from tests.support.hound_traces import METRICS, plant

pytest.importorskip("pyarrow")
SETTINGS = TopicSettings()
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """A trace of 30 jobs with rows that are no tasks, and with columns that are no metrics."""
    frame = plant(30, 9, tasks=(10, 90)).features.frame
    table = frame[["stage", "duration_ms", *METRICS]].rename(columns={"stage": "job"})
    table = table.assign(
        job="j" + table["job"].astype(str), owner="x", offset=np.arange(len(table)) - 5.0
    )
    table.loc[table.index[::97], "duration_ms"] = np.nan
    table.loc[table.index[5::97], "job"] = None
    table.loc[table.index[9::97], "duration_ms"] = 0.0
    return table


def written(table: pd.DataFrame, path: Path, **options) -> Path:
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False, **options)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(table.to_csv(index=False).encode()))
    else:
        table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def whole(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory):
    return find_topics(read_trace(written(table, tmp_path_factory.mktemp("whole") / "t.parquet")))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.csv.gz"])
def test_some_jobs_at_a_time_give_the_topics_of_the_whole(
    table, whole, tmp_path, monkeypatch, name
) -> None:
    monkeypatch.setattr(trace_columns, "PIECE_ROWS", 100)
    path = written(table, tmp_path / name)
    stream = TraceStream.open(path)
    assert stream.grouped
    found = find_topics_in_trace(stream, SETTINGS)
    assert [d.replace(str(path), "") for d in found.doubts] == [
        d.replace(whole.labels.apps[0], "") for d in whole.doubts
    ]
    assert len(found.doubts) >= 2  # rows that are no tasks, columns that are no metrics
    assert found.labels.stages == whole.labels.stages
    same(replace(found, doubts=whole.doubts), whole)


def test_jobs_scattered_over_the_file_are_sorted_outside_of_memory(
    table, whole, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(trace_columns, "PIECE_ROWS", 100)
    monkeypatch.setattr(trace_topic_search, "BLOCK_BYTES", 50_000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mixed = table.sample(frac=1.0, random_state=0)
    stream = TraceStream.open(written(mixed, tmp_path / "t.parquet"))
    assert not stream.grouped
    blocks = [set(block.job.tolist()) for block in stream.blocks()]
    assert len(blocks) > 3
    assert sum(map(len, blocks)) == len(set.union(*blocks)) == 30
    found = find_topics_in_trace(stream, SETTINGS)
    assert found.words["word"].tolist() == whole.words["word"].tolist()
    assert found.mixtures["share"].to_numpy() == pytest.approx(whole.mixtures["share"].to_numpy())
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]  # nothing is left behind


@pytest.mark.slow
@given(seed=seeds, piece=st.integers(1, 30), scattered=st.booleans())
def test_every_job_comes_once_and_whole(seed: int, piece: int, scattered: bool) -> None:
    rng = np.random.default_rng(seed)
    job = np.repeat(np.arange(6), rng.integers(1, 25, 6)).astype(float)
    job[rng.random(len(job)) < 0.1] = np.nan
    if scattered:
        job = rng.permutation(job)
    if not np.isfinite(job).any():
        return
    latency = rng.integers(0, 5, len(job)).astype(float)
    latency[np.isfinite(job)] += 1
    table = pd.DataFrame({"job": job, "latency": latency, "m": np.arange(len(job)) * 1.0})
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_columns, "PIECE_ROWS", piece)
        patch.setattr(trace_topic_search, "BLOCK_BYTES", 500)
        stream = TraceStream.open(written(table, Path(folder) / "t.parquet"))
        blocks = list(stream.blocks())
    rows = np.concatenate([block.metrics[:, 0] for block in blocks]).astype(int)
    assert sorted(rows) == np.flatnonzero(np.isfinite(job)).tolist()
    for block in blocks:
        assert block.latency_ms.tolist() == latency[block.metrics[:, 0].astype(int)].tolist()
        names = [float(stream.layout.jobs[code]) for code in block.job]
        assert names == job[block.metrics[:, 0].astype(int)].tolist()
    seen = [code for block in blocks for code in np.unique(block.job)]
    assert len(seen) == len(set(seen)) == stream.n_jobs


@pytest.mark.parametrize("statistics", [True, False])
def test_columns_that_are_no_metrics_are_the_same_as_of_the_whole(tmp_path, statistics) -> None:
    n = 400
    table = pd.DataFrame(
        {
            "job": np.repeat([3, 1], n // 2), "latency": np.ones(n), "good": np.arange(n) * 1.0,
            "whole": np.arange(n), "late": np.where(np.arange(n) == n - 1, -1.0, 1.0),
            "missing": np.full(n, np.nan), "infinite": np.where(np.arange(n) == 7, np.inf, 1.0),
            "text": "x", "flag": np.arange(n) % 2 == 0, "task_id": np.arange(n), "stage_": 1.0,
            "query": 2.0, "time": pd.Timestamp("2020-01-01"), "gone": -1.0,
        }
    )  # fmt: skip
    table.loc[table["gone"] < 0, "gone"] = np.where(np.arange(n) == 5, -1.0, 3.0)
    table.loc[5, "latency"] = np.nan  # the only negative one is of no task
    path = written(table, tmp_path / "t.parquet", row_group_size=50, write_statistics=statistics)
    columns = TraceColumns.parse(
        "times=whole,unit=s,metrics="
        + "+".join(name for name in table if name not in ("job", "latency", "whole"))
    )
    stream, features = TraceStream.open(path, columns), read_trace(path, columns)
    assert stream.layout.features == features.features
    assert stream.layout.doubts == features.doubts
    assert stream.layout.jobs == features.labels.stages == ["1", "3"]
    blocks = list(stream.blocks())
    for j, feature in enumerate(stream.layout.features):
        mine = np.concatenate([block.metrics[:, j] for block in blocks])
        assert np.array_equal(mine, features.column(feature.name), equal_nan=True), feature.name


@given(seed=seeds, columns=st.integers(1, 3))
def test_jobs_are_numbered_by_their_joined_texts(seed: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    long = "n" * 250
    values = np.array(["a", "b", "", "a/b", long + "1", long + "2", None], object)
    table = pd.DataFrame({f"c{c}": values[rng.integers(0, 7, 12)] for c in range(columns)})
    codes, names = codes_of(table, tuple(table))
    assert names == sorted(set(names))
    for code, row in zip(codes.tolist(), table.itertuples(index=False), strict=True):
        if any(pd.isna(one) for one in row):
            assert code == -1
        else:
            assert names[code] == "/".join(str(one)[:200] for one in row)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "does not start with a line of column names"),
        (b"job,latency\n", "no task has both a job and a latency"),
        (b"a,b\n1,2\n", "no column tells what tasks are compared within"),
        (b"job,latency\n1,x\n,5\n", "no task has both a job and a latency"),
        (b"job,latency\n1,-5\n1,inf\n1,1e999\n", "no task has both a job and a latency"),
        (b"\x00\xff\xfe\x89PNG\r\n\x1a\n" * 50, "trace.csv"),
        (b'job,latency\n"1,2\n' * 3, "trace.csv"),
    ],
)
def test_rubbish_is_one_clear_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(IqcarError, match=r"trace\.csv") as caught:
        TraceStream.open(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_parquet_and_one_that_lies_about_its_statistics(tmp_path: Path) -> None:
    good = pd.DataFrame({"job": np.ones(3000), "latency": np.ones(3000), "m": np.arange(3000.0)})
    path = written(good, tmp_path / "t.parquet")
    whole = path.read_bytes()
    for cut in (whole[:100], whole[: len(whole) // 2], b"PAR1" + whole[400:], whole[:-1]):
        path.write_bytes(cut)
        with pytest.raises(IqcarError, match=r"t\.parquet"):
            list(TraceStream.open(path).blocks())


def test_a_job_over_many_pieces_is_one_block(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(trace_columns, "PIECE_ROWS", 10)
    table = pd.DataFrame({"job": [1] * 95 + [2] * 5, "latency": 1.0, "m": np.arange(100.0)})
    blocks = list(TraceStream.open(written(table, tmp_path / "t.parquet")).blocks())
    assert [len(block.job) for block in blocks] == [95, 5]


@pytest.mark.slow
def test_the_command_reads_traces_some_jobs_at_a_time(table, whole, tmp_path: Path) -> None:
    path = written(table, tmp_path / "t.parquet")
    done = iqcar("topics", "--trace", path)
    assert done.returncode == 0, done.stderr
    assert f"of {len(whole.jobs)} stages" in " ".join(done.stdout.split())
