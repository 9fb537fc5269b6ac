"""Fixtures shared by all tests."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# No deadline: a shared machine is slow at times. Fixed examples in CI, fresh ones elsewhere.
settings.register_profile("iqcar-long", deadline=None, max_examples=60, print_blob=True)
settings.register_profile("iqcar", settings.get_profile("iqcar-long"), max_examples=15)
settings.register_profile("iqcar-ci", settings.get_profile("iqcar"), derandomize=True)
settings.register_profile("iqcar-quick", settings.get_profile("iqcar"), max_examples=8)
settings.load_profile("iqcar-ci" if os.environ.get("CI") else "iqcar")

REPO = Path(__file__).resolve().parent.parent
ROOMS = {
    "spark": ("listener/src",),
    "browser": ("analyzer/iqcar/show", "analyzer/iqcar/apps/serve"),
    "lab": ("analyzer/iqcar_lab",),
    "project": ("analyzer", "scripts", "build_kernels.py", "hatch_build.py", "pyproject.toml"),
}
"""What the tests of a folder prove that is not named like its room."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Name the commit since when a room must have changed for its long tests to run."""
    parser.addoption("--since", help="commit: long tests only of rooms that have changed since")


def pytest_collection_finish() -> None:
    """Search for garbage seldom, and never among what lives as long as the run."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the JVMs of tests start fast."""
    if item.get_closest_marker("spark") and shutil.which("java"):
        from tests.support import quick_spark

        quick_spark.make_archive()
        os.environ.setdefault("SPARK_SUBMIT_OPTS", quick_spark.options())


def shared_logs_folder() -> Path:
    """Folder of event logs written by other people's Spark; it may be absent."""
    return Path(os.environ.get("IQCAR_EVENTLOGS", REPO.parent / "shared" / "eventlogs"))


@pytest.fixture(scope="session")
def shared_logs() -> Path:
    """The folder of real event logs, or a skip where it does not exist."""
    folder = shared_logs_folder()
    if not folder.is_dir():
        pytest.skip("the folder of other people's event logs is not here")
    return folder


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Let the files of a distributed run be handed out by our own rules: --dist loadfile."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.support.scheduling import FilesInTurn

    return FilesInTurn(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what starts a Spark or opens pages in a browser: scripts/test --quick leaves it out."""
    for item in items:
        if item.path.parent.name in ("spark", "browser"):
            item.add_marker(item.path.parent.name)
        elif "spark_logs" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    since = config.getoption("since")
    left_out = [
        item
        for item in items
        if for_another_spark(item) or (since and of_an_old_room(item, changed_since(since)))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def for_another_spark(item: pytest.Item) -> bool:
    """Whether a test's Spark runs the portable tests only, and this is none."""
    if not os.environ.get("IQCAR_PORTABLE_HOMES") or item.get_closest_marker("portable"):
        return False
    from tests.support.listener_spark import portable_homes

    params = getattr(item, "callspec", None)
    return params is not None and any(home in params.params.values() for home in portable_homes())


@functools.cache
def changed_since(commit: str) -> tuple[str, ...]:
    """The files that differ from those of a commit; where git cannot tell, every room has."""
    names = ["git", "diff", "--name-only", commit]
    done = subprocess.run(names, cwd=REPO, capture_output=True, text=True)
    return tuple(done.stdout.splitlines()) if done.returncode == 0 else ("",)


def of_an_old_room(item: pytest.Item, changed: tuple[str, ...]) -> bool:
    """Whether a test is marked long and neither its file nor a room that it proves has changed.

    The mark's arguments are those rooms; without any it is the room that its folder is named like.
    """
    long = item.get_closest_marker("long")
    if long is None or changed == ("",):
        return False
    file = item.path.relative_to(REPO)
    room = file.parts[1]
    rooms = long.args or ROOMS.get(room, (f"analyzer/iqcar/{room}",))
    return not any(path.startswith((file.as_posix(), *rooms)) for path in changed)
