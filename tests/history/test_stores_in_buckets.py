"""Stores in servers that speak as S3, Google's and Azure's stores, and HDFS do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iqcar.errors import IqcarError
from iqcar.history import add, changes, store_views, top, trend, who
from iqcar.history.store_views import view_of
from iqcar.history.stored_files import APPLICATIONS, CAUSES, DEMANDS, STORED, open_store
from tests.support import object_stores
from tests.support.command import iqcar
from tests.support.nightly_logs import nightly_log

pytestmark = pytest.mark.slow


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with object_stores.s3_server(monkeypatch) as address:
        import fsspec

        fsspec.filesystem("s3").makedirs("metrics", exist_ok=True)  # it outlives its server
        yield address


def check_kept(store: str, tmp_path: Path) -> None:
    """A store is written there, its files are merged, and it is asked."""
    logs = [nightly_log(night).write(tmp_path / f"app-{night}") for night in range(3)]
    assert add(store, logs[:2], processes=1).added == 2
    added = add(store, logs, processes=1)
    assert (added.added, added.known) == (1, 2)
    assert added.merged > 0
    opened = open_store(store)
    known = opened.list(APPLICATIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_views, "KEPT_S", -1.0)
        assert add(store, logs, processes=1).known == 3
    assert {len(opened.list(table)) for table in STORED if table not in (CAUSES, DEMANDS)} == {1}
    opened.remove(one.path for one in known)  # most are gone
    assert [len(opened.list(table)) for table in STORED].count(0) == 3
    assert add(store, logs, processes=1).added == 3
    assert len(trend(store, "report")) == 3
    assert who(store, "pool")["victim"].tolist() == ["bi"]
    assert top(store, "all").queries["name"].tolist() == ["etl"]
    assert changes(store).series == 0


@pytest.mark.long
def test_s3_holds_a_store_and_says_what_is_wrong_in_a_line(
    s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = "s3a://metrics/teams/iqcar"
    check_kept(store, tmp_path)
    with pytest.raises(IqcarError, match="there is no store here"):
        top("s3a://metrics/other")
    with pytest.raises(IqcarError, match="the store cannot be used"):
        add("s3a://nowhere/store", [tmp_path / "app-0"], processes=1)
    object_stores.ask_who_it_is(s3)
    object_stores.for_s3(monkeypatch, s3, key="a-stranger")
    done = iqcar("history", "top", store)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"iqcar: {store}: the store cannot be used: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_a_question_asks_a_bucket_for_each_table_and_not_for_each_file(
    s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import s3fs

    store = "s3://metrics/counted"
    asked_for: Counter[str] = Counter()
    call = s3fs.S3FileSystem._call_s3

    async def counting(files: s3fs.S3FileSystem, method: str, *rest: object, **more: object) -> Any:
        asked_for[method] += 1
        return await call(files, method, *rest, **more)

    for night in range(3):
        add(store, [nightly_log(night).write(tmp_path / "app")], processes=1)
    files = sum(len(open_store(store).list(table)) for table in STORED)
    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", counting)
    assert top(store, "all").queries["name"].tolist() == ["etl"]
    assert asked_for["list_objects_v2"] <= len(STORED)
    assert asked_for["head_object"] <= 3 < files / 5
    # Each reading of a file takes its end and its columns.
    assert asked_for["get_object"] < 6 * files


def test_a_file_that_is_gone_since_it_was_listed_is_told_in_a_line(s3: str, tmp_path: Path) -> None:
    import fsspec

    store = "s3://metrics/gone"
    add(store, [nightly_log(0).write(tmp_path / "app")], processes=1)
    about = view_of(store)
    assert len(about.ask("SELECT * FROM applications")) == 1
    (file,) = about.store.list(APPLICATIONS)
    somebody_else = fsspec.filesystem("s3", skip_instance_cache=True)
    somebody_else.rm_file(file.path)
    with pytest.raises(IqcarError, match=f"{store}: cannot be read: "):
        about.ask("SELECT * FROM applications")
    assert about.store.list(APPLICATIONS) == []


@pytest.mark.long
def test_googles_store_holds_a_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with object_stores.google_server(monkeypatch):
        import fsspec

        fsspec.filesystem("gs").mkdir("metrics")
        check_kept("gs://metrics/teams/iqcar", tmp_path)
        done = iqcar("history", "who", "gs://metrics/teams/iqcar")
        assert done.returncode == 0
        assert "Task was destroyed" not in done.stderr
        with pytest.raises(IqcarError, match="the store cannot be used"):
            add("gs://nowhere/store", [tmp_path / "app-0"], processes=1)


def test_azures_store_holds_a_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with object_stores.azure_server(monkeypatch, tmp_path):
        import fsspec

        fsspec.filesystem("abfs").mkdir("metrics")
        check_kept("abfs://metrics/teams/iqcar", tmp_path)


def test_a_file_system_that_knows_of_no_listings_holds_a_store(tmp_path: Path) -> None:
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    class Plain(LocalFileSystem):
        """As SFTP's: what is listed is asked for each time."""

        protocol = "plain"

        def ls(self, path: str, detail: bool = False) -> list[Any]:
            return super().ls(path, detail=detail)

    fsspec.register_implementation("plain", Plain, clobber=True)
    check_kept(f"plain://{tmp_path}/store", tmp_path)


@pytest.mark.long
def test_hdfs_holds_a_store(tmp_path: Path) -> None:
    with object_stores.hadoop_cluster(tmp_path) as address:
        check_kept(f"{address}/teams/iqcar", tmp_path)
