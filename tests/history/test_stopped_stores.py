"""A store whose writer is killed, or whose machine stops, answers as before or as after.

And one on a machine whose clock goes back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iqcar.errors import IqcarError
from iqcar.history import add
from iqcar.history.store_views import merge_months, view_of
from iqcar.history.stored_files import open_store
from tests.support.nightly_logs import nightly_log
from tests.support.stopped_store import Disk, killed_stores, steps_of
from tests.support.stored_applications import keep, names

pytestmark = pytest.mark.slow

HOUR_NS = 3_600_000_000_000
BEFORE = {"app-1": "a", "app-2": "b"}
AFTER = {"add": {**BEFORE, "app-3": "c"}, "merge": BEFORE}
WHAT = pytest.mark.parametrize("what", AFTER)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "stores" / "store"
    root.parent.mkdir()
    for application, name in BEFORE.items():
        keep(open_store(str(root)), application, name)
    return root


def answer(root: Path) -> dict[str, str]:
    """What a store answers, of which no file is set aside."""
    store = open_store(str(root))
    try:
        return names(store)
    except IqcarError as error:
        assert "there is no store here" in str(error)
        return {}
    finally:
        assert store.set_aside_lines() == []


@pytest.mark.long
@WHAT
def test_a_killed_writer_leaves_a_store_that_answers(what: str, root: Path) -> None:
    *stopped, whole = killed_stores(what, root)
    assert len(stopped) > 20
    assert answer(whole) == AFTER[what]
    for one in stopped:
        assert answer(one) in (BEFORE, AFTER[what]), one
        keep(open_store(str(one)), "app-4", "d")
        assert answer(one)["app-4"] == "d"


def states(what: str, root: Path, keeps_names: bool) -> Iterator[dict[Path, bytes | None]]:
    """What is on the disk after each step, where that is another state."""
    disk, last = Disk(root, keeps_names=keeps_names), None
    for step in steps_of(what, root):
        disk.do(step)
        if (state := disk.state()) != last:
            yield state
        last = state


@pytest.mark.long
@WHAT
@pytest.mark.parametrize("keeps_names", [True, False])
def test_a_disk_that_loses_what_was_not_synchronised_leaves_a_store_that_answers(
    what: str, keeps_names: bool, root: Path, tmp_path: Path
) -> None:
    stores = []
    for number, state in enumerate(states(what, root, keeps_names)):
        stores.append(tmp_path / str(number) / root.name)
        for path, content in state.items():
            place = tmp_path / str(number) / path.relative_to(root.parent)
            if content is None:
                place.mkdir(parents=True)
            else:
                place.write_bytes(content)
    assert len(stores) > 8
    for one in stores:
        assert answer(one) in (BEFORE, AFTER[what]), one
    assert answer(stores[-1]) == AFTER[what]


def test_a_new_store_is_on_the_disk_when_it_was_added_to(tmp_path: Path) -> None:
    root = tmp_path / "stores" / "store"
    root.parent.mkdir()
    disk = Disk(root, keeps_names=False)
    for step in steps_of("add", root):
        disk.do(step)
    on_disk = {path for path, content in disk.state().items() if content}
    assert on_disk == {path for path in root.rglob("*") if path.is_file()}


def test_the_last_addition_counts_when_the_clock_went_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, store = nightly_log(3), str(tmp_path / "store")
    path = log.write(tmp_path / "app")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert add(store, [path], processes=1).partial == 1
    path.write_bytes(whole)
    real = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: real() - HOUR_NS)
    assert add(store, [path], processes=1).added == 1
    assert view_of(store).ask("SELECT status FROM applications")["status"].tolist() == ["complete"]
    assert add(store, [path], processes=1).known == 1


def test_a_clock_that_went_back_far_makes_no_file_a_stranger(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sorted(root.rglob("*"))
    monkeypatch.setattr("time.time_ns", lambda: 0)
    monkeypatch.setattr("time.time", lambda: 0.0)
    store = open_store(str(root))
    assert names(store) == {}
    assert all("check this machine's clock" in line for line in store.set_aside_lines())
    merge_months(store)
    assert sorted(root.rglob("*")) == files
    monkeypatch.undo()
    assert answer(root) == BEFORE
