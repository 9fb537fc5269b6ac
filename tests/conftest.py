"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent


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
