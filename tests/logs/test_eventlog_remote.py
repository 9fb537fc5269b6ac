"""Event logs in remote stores."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
import zstandard
from fsspec.registry import _registry

from iqcar.errors import IqcarError
from iqcar.logs.find.locate import locate
from iqcar.logs.find.storage import for_fsspec
from tests.support.log_places import APP, LOG, logs, names, text, unreadable, zipped


@pytest.fixture
def bucket() -> Iterator[fsspec.AbstractFileSystem]:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    yield memory
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


def test_a_remote_file_folder_and_pattern(bucket: fsspec.AbstractFileSystem) -> None:
    bucket.pipe(
        {
            f"/logs/{APP}": LOG * 2,
            "/logs/deep/renamed": LOG,
            "/logs/README.md": b"no log",
            f"/logs/.{APP}.crc": LOG,
        }
    )
    (one,) = logs([f"memory://logs/{APP}"])
    assert (one.path, one.size_bytes) == (f"memory://logs/{APP}", 2 * len(LOG))
    assert text(one) == LOG * 2
    expected = [f"memory://logs/{APP}", "memory://logs/deep/renamed"]
    for url in ("memory://logs", "memory://logs/", "memory://logs/*"):
        assert [log.path for log in logs([url])] == expected
    assert [log.path for log in logs(["memory://logs/app*"])] == expected[:1]
    assert [log.path for log in logs(["memory://logs/**/ren*"])] == expected[1:]
    assert len(logs(["memory://logs", f"memory://logs/{APP}", "memory://logs"])) == 2
    assert names(["memory://logs/README.md"]) == ["README.md"]


def test_a_remote_rolling_log_and_zip(bucket: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    folder = f"eventlog_v2_{APP}_1"
    stored = zipped(tmp_path / "logs.zip", {f"{APP}_7": LOG * 3}).read_bytes()
    bucket.pipe(
        {
            f"/logs/{folder}/events_2_{APP}_1.zstd": zstandard.ZstdCompressor().compress(b"2\n"),
            f"/logs/{folder}/events_1_{APP}_1.zstd": zstandard.ZstdCompressor().compress(b"1\n"),
            f"/logs/{folder}/appstatus_{APP}_1": b"",
            "/logs/logs.zip": stored,
        }
    )
    for url in ("memory://logs", f"memory://logs/{folder}", f"memory://logs/{folder}/*"):
        found = logs([url])
        assert found[-1].path == f"memory://logs/{folder}"
        assert text(found[-1]) == b"1\n2\n"
    zip_log = logs(["memory://logs/logs.zip"])[0]
    assert zip_log.path == f"memory://logs/logs.zip::{APP}_7"
    assert text(zip_log) == LOG * 3


def test_what_is_not_in_a_remote_store_is_unreadable(bucket: fsspec.AbstractFileSystem) -> None:
    bucket.pipe("/logs/README.md", b"no log")
    assert "does not exist" in unreadable(["memory://nowhere/log"])
    assert "no event log" in unreadable(["memory://nowhere/*.log"])
    assert "no event log" in unreadable(["memory://logs"])
    assert "no event log" in unreadable(["memory://logs/READ*"])
    assert "below the bucket" in unreadable(["memory://lo*"])
    assert "Protocol not known" in unreadable(["nonsense://logs/log"])


@pytest.mark.parametrize(
    ("url", "missing"),
    [("memory://logs", "fsspec"), ("s3a://bucket/logs", "s3fs"), ("gs://bucket/logs", "gcsfs")],
)
def test_a_package_that_is_missing_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, url: str, missing: str
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    for protocol in ("s3", "gs"):  # fsspec keeps what it has loaded once
        monkeypatch.delitem(_registry, protocol, raising=False)
    with pytest.raises(IqcarError) as raised:
        locate([url])
    assert missing in str(raised.value)
    assert 'pip install "iqcar[remote]"' in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("hadoop", "fsspec_url"),
    [
        ("s3a://bucket/logs", "s3://bucket/logs"),
        ("s3n://bucket/logs", "s3://bucket/logs"),
        ("s3://bucket/logs", "s3://bucket/logs"),
        ("gs://bucket/logs", "gs://bucket/logs"),
        ("abfss://c@a.dfs.core.windows.net/l", "abfss://c@a.dfs.core.windows.net/l"),
        ("wasbs://c@a.blob.core.windows.net/l", "abfss://c@a.dfs.core.windows.net/l"),
        ("HDFS://name:8020/logs", "hdfs://name:8020/logs"),
        ("webhdfs://name:9870/logs", "webhdfs://name:9870/logs"),
    ],
)
def test_hadoops_names_of_stores_are_understood(hadoop: str, fsspec_url: str) -> None:
    assert for_fsspec(hadoop) == fsspec_url
