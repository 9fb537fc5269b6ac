"""A store in a server that speaks as S3 does: written, asked, and what is wrong in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iqcar.errors import IqcarError
from iqcar.history import add, changes, top, trend, who
from tests.support import object_stores
from tests.support.command import iqcar
from tests.support.nightly_logs import nightly_log


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with object_stores.s3_server(monkeypatch) as address:
        import fsspec

        fsspec.filesystem("s3").mkdir("metrics")
        yield address


def test_s3_holds_a_store_and_says_what_is_wrong_in_a_line(
    s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    logs = [nightly_log(night).write(tmp_path / f"app-{night}") for night in range(3)]
    store = "s3a://metrics/teams/iqcar"
    assert add(store, logs[:2], processes=1).added == 2
    assert (added := add(store, logs, processes=1)).added == 1
    assert added.known == 2
    assert len(trend(store, "report")) == 3
    assert who(store, "pool")["victim"].tolist() == ["bi"]
    assert top(store, "all").queries["name"].tolist() == ["etl"]
    assert changes(store).series == 0
    with pytest.raises(IqcarError, match="there is no store here"):
        top("s3a://metrics/other")
    with pytest.raises(IqcarError, match="the store cannot be used"):
        add("s3a://nowhere/store", logs, processes=1)
    object_stores.ask_who_it_is(s3)
    object_stores.for_s3(monkeypatch, s3, key="a-stranger")
    done = iqcar("history", "top", store)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"iqcar: {store}: the store cannot be used: ")
    assert done.stderr.count("\n") == 1
