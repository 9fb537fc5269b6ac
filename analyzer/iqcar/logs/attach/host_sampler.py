"""Sample a host's CPU, memory, disks and network outside Spark.

The sampler is a single file that the Spark plugin ships too; this module finds that file and runs
it in this process. It imports nothing of iqcar's analysis, so that sampling starts at once.
"""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from iqcar.errors import IqcarError

SCRIPT = "iqcar_sampler.py"


def script_path() -> Path:
    """Return the path of the sampler: in the installed package, else in the repository.

    Raises IqcarError if the installation is incomplete.
    """
    package = Path(__file__).resolve().parents[2]
    resources = package.parents[1] / "listener" / "src" / "main" / "resources"
    for path in (package / "data" / SCRIPT, resources / SCRIPT):
        if path.is_file():
            return path
    raise IqcarError(f"this installation has no {SCRIPT}", "", "install iqcar again")


class _SourceAlone(SourceFileLoader):
    """Keeps no compiled file: in the repository it would lie among the sources of the jar."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Write nothing."""


def load() -> ModuleType:
    """Import the sampler.

    Raises IqcarError if psutil is not installed, or the system cannot be sampled.
    """
    loader = _SourceAlone("iqcar_sampler", str(script_path()))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    if spec is None:
        raise IqcarError(f"cannot import {SCRIPT}", str(script_path()))
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    if module.MISSING:
        raise IqcarError(module.MISSING, "", "pip install psutil (Windows cannot be sampled)")
    return module


def sample_host(
    write: Callable[[str], object],
    *,
    period_s: float = 1.0,
    for_s: float = float("inf"),
    host: str = "",
) -> None:
    """Sample this host until SIGINT, SIGTERM or the end of ``for_s``.

    Parameters
    ----------
    write : takes one line of JSON with its newline; may raise BrokenPipeError, which ends sampling.
    period_s, for_s : seconds between samples, and total seconds.
    host : the host's name as Spark reports it; by default its own host name.
    """
    module: Any = load()
    sampler = module.Sampler(name=host or socket.gethostname())
    module.run(sampler, write, period_s, for_s)
