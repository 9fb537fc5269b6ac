"""Event logs in servers that speak as S3, Google's and Azure's stores, and HDFS do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iqcar.logs.find.locate import locate
from iqcar.pipeline import read
from tests.support import object_stores
from tests.support.command import iqcar
from tests.support.log_places import LOG, logs, text, unreadable
from tests.support.small_log import small_log

MANY = 20_000


def fill(protocol: str, bucket: str, tmp_path: Path) -> None:
    """Put a log, a rolling log and another file into a bucket that is made for them."""
    import fsspec

    store = fsspec.filesystem(protocol)
    store.mkdir(bucket)
    store.pipe(f"{bucket}/app-1", small_log().end().write(tmp_path / "app-1").read_bytes())
    store.pipe(f"{bucket}/deep/eventlog_v2_app-2/events_1_app-2", LOG * 2)
    store.pipe(f"{bucket}/README.md", b"no log")


def check_found(url: str) -> None:
    """Both logs are found below the bucket, and read as they were put there."""
    whole, rolling = logs([url])
    assert (whole.path, rolling.path) == (f"{url}/app-1", f"{url}/deep/eventlog_v2_app-2")
    assert text(rolling) == LOG * 2
    assert read(f"{url}/app-1").inputs["status"].tolist() == ["complete"]
    check_read_once_ended(url)


def check_read_once_ended(url: str) -> None:
    """A log that Spark renames after it was found is read under its new name."""
    import fsspec

    files, root = fsspec.core.url_to_fs(url)
    files.copy(f"{root}/app-1", f"{root}/app-3.inprogress")
    somebody_else = type(files)(**files.storage_options, skip_instance_cache=True)
    running = [log for log in logs([url]) if log.in_progress_hint]
    assert [log.path for log in running] == [f"{url}/app-3.inprogress"]
    assert text(running[0]) == files.cat_file(f"{root}/app-1")
    somebody_else.copy(f"{root}/app-1", f"{root}/app-3")
    somebody_else.rm(f"{root}/app-3.inprogress")
    assert read(running).inputs["status"].tolist() == ["complete"]
    somebody_else.rm(f"{root}/app-3")
    failed, _ = read([*running, f"{url}/app-1"]).inputs["message"]
    assert failed == "nothing could be read: it cannot be opened: it does not exist"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    with object_stores.s3_server(monkeypatch) as address:
        fill("s3", "logs", tmp_path)
        yield address


@pytest.mark.slow
def test_s3_is_listed_and_read_and_says_what_is_wrong_in_a_line(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_found("s3a://logs")
    assert unreadable(["s3a://nowhere/logs"]) == "it cannot be read: it does not exist"
    assert unreadable(["s3a://logs/nothing"]) == "it cannot be read: it does not exist"
    object_stores.for_s3(monkeypatch, s3, key="")
    assert unreadable(["s3a://logs"]) == "it cannot be read: Unable to locate credentials"
    object_stores.ask_who_it_is(s3)
    object_stores.for_s3(monkeypatch, s3, key="a-stranger")
    assert unreadable(["s3a://logs"]) == "it cannot be read: permission denied"
    done = iqcar("analyze", "s3a://logs/app-1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "iqcar: s3a://logs/app-1: it cannot be read: permission denied\n"


@pytest.mark.long
def test_very_many_objects_are_listed_page_by_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing but the listing is asked for: names tell that these are logs."""
    pytest.importorskip("s3fs")
    names = tuple(f"app-20260101000000-{number:06d}" for number in range(MANY))
    with object_stores.listing_server(names) as server:
        object_stores.for_s3(monkeypatch, f"http://127.0.0.1:{server.server_port}")
        found = locate(["s3a://logs"])
        object_stores.forget("s3")
    assert len(found) == MANY
    assert found[-1].path == f"s3a://logs/{names[-1]}"
    assert server.asked <= MANY / object_stores.PAGE + 5  # type: ignore[attr-defined]


@pytest.mark.slow
def test_googles_store_is_listed_and_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with object_stores.google_server(monkeypatch):
        fill("gs", "logs", tmp_path)
        check_found("gs://logs")
        assert unreadable(["gs://nowhere/logs"]) == "it cannot be read: it does not exist"


@pytest.mark.slow
def test_azures_store_is_listed_and_read_and_says_what_is_wrong_in_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with object_stores.azure_server(monkeypatch, tmp_path) as connection:
        fill("abfs", "logs", tmp_path)
        check_found("abfs://logs")
        assert unreadable(["abfs://nowhere/logs"]) == "it cannot be read: it does not exist"
        wrong = connection.replace(object_stores.AZURE_KEY, "d3Jvbmc=")
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", wrong)
        object_stores.forget("abfs")
        said = unreadable(["abfs://logs"])
        assert said.startswith("it cannot be read: Server failed to authenticate the request. ")
        assert "\n" not in said


@pytest.mark.long
def test_hdfs_is_listed_and_read_and_says_what_is_wrong_in_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import fsspec

    with object_stores.hadoop_cluster(tmp_path) as address:
        store, _ = fsspec.core.url_to_fs(f"{address}/")
        store.mkdir("/logs/deep/eventlog_v2_app-2")
        log = small_log().end().write(tmp_path / "app-1").read_bytes()
        for name, content in {
            "app-1": log,
            "deep/eventlog_v2_app-2/events_1_app-2": LOG * 2,
            "README.md": b"no log",
        }.items():
            with store.open(f"/logs/{name}", "wb") as file:
                file.write(content)
        check_found(f"{address}/logs")
        assert unreadable([f"{address}/nowhere"]) == "it cannot be read: it does not exist"
        store.chmod("/logs/app-1", "000")
        monkeypatch.setitem(fsspec.config.conf, "webhdfs", {"user": "stranger"})
        object_stores.forget("webhdfs")
        (message,) = read(f"{address}/logs/app-1").inputs["message"].tolist()
        assert message == "it cannot be read: permission denied"
