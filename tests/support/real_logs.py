"""Event logs that other people's Spark wrote: each is read and diagnosed once in a process."""

from __future__ import annotations

from functools import cache

import iqcar
from tests.conftest import shared_logs_folder

LOGS = (
    sorted(path.name for path in shared_logs_folder().iterdir() if path.name != "README.md")
    if shared_logs_folder().is_dir()
    else []
)


@cache
def diagnosis_of_log(name: str) -> iqcar.Diagnosis:
    """All that is found in one of them, its topics too."""
    return iqcar.diagnose(iqcar.read(shared_logs_folder() / name), topics=True)
