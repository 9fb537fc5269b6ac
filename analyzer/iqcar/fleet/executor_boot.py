"""Finds iqcar's code in a Python worker of Spark, and runs a function of it.

This module is pickled by value, because a worker cannot import it before it has run: it imports
nothing of iqcar, and only the standard library and pyspark inside its functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MISSING = "iqcar-on-an-executor"
"""Marks what went wrong in a worker before any of iqcar's code could run."""


def step(home: str, archive: str, name: str) -> Callable[[bytes], bytes]:
    """Make what Spark calls with the arguments of each call, pickled; it returns so what came back.

    home: folder that holds the package, if executors run on this machine; else empty.
    archive: file that was shipped by :func:`iqcar.fleet.on_spark.ship`; else empty.
    name: module and function in the package, as ``fleet.on_spark.look``.
    """

    def run(arguments: bytes) -> bytes:
        function = find(home, archive, name)
        import gc
        import pickle

        # Spark collects garbage after every task: not again among what lives on, like modules.
        gc.freeze()
        return pickle.dumps(function(*pickle.loads(arguments)), protocol=5)  # noqa: S301

    return run


def find(home: str, archive: str, name: str) -> Callable[..., Any]:
    """Import a step, from the package's folder or from the archive that was shipped."""
    import sys
    from importlib import import_module

    folder = home or unpacked(archive)
    known = sys.modules.get("iqcar")
    origin = getattr(known, "__file__", "") or ""
    if known is not None and not origin.startswith(folder):
        # Another iqcar was imported in this worker before: its modules would be mixed with ours.
        for loaded in [m for m in sys.modules if m == "iqcar" or m.startswith("iqcar.")]:
            del sys.modules[loaded]
    if sys.path[:1] != [folder]:  # first, also where a worker has met another iqcar since
        sys.path[:] = [folder, *(path for path in sys.path if path != folder)]
    module, _, function_name = name.rpartition(".")
    try:
        steps = import_module(f"iqcar.{module}")
    except ImportError as error:
        raise RuntimeError(f"{MISSING}: {error} (Python {sys.executable})") from None
    function: Callable[..., Any] = getattr(steps, function_name)
    return function


def unpacked(archive: str) -> str:
    """Unpack the archive beside itself, once per executor; return the folder.

    Compiled code is cached beside the sources, which it cannot be inside an archive.
    """
    import os
    import tempfile
    import zipfile

    from pyspark import SparkFiles

    path = SparkFiles.get(archive)
    folder = f"{path}.unpacked"
    if not os.path.isdir(folder):  # noqa: PTH112 (no pathlib: the less a worker needs, the better)
        partial = tempfile.mkdtemp(dir=os.path.dirname(path))  # noqa: PTH120
        with zipfile.ZipFile(path) as packed:
            packed.extractall(partial)
        try:
            os.rename(partial, folder)  # noqa: PTH104
        except OSError:
            # Another worker of this executor was faster; ours goes with the executor's folder.
            return folder if os.path.isdir(folder) else partial  # noqa: PTH112
    return folder
