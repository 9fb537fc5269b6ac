"""Sends iqcar's own code to the executors as a zip of the package."""

from __future__ import annotations

import atexit
import hashlib
import pickle
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iqcar.fleet import executor_boot
from iqcar.fleet.session import is_local
from iqcar.logs.text.redact import SHARED, shared_file
from iqcar.rules.vocabulary.data_files import rules_folder

PACKAGE = Path(__file__).resolve().parents[1]
SOURCES, COMPILED = (".py", ".json"), (".so", ".pyd")
"""What is shipped: sources, and the compiled kernels, which are of use where the executors' Python
and system are those of this one; elsewhere kernels are plain Python."""


@dataclass(frozen=True)
class Shipped:
    """Where a worker finds the package: a folder of this machine, or a shipped archive."""

    home: str
    archive: str

    def step(self, name: str, *arguments: Any) -> Callable[[Any], Any]:
        """Make the function that runs a step, ``module.function`` here, on each partition."""
        packed = pickle.dumps(arguments, protocol=5)
        return executor_boot.step(self.home, self.archive, name, packed)


def ship(spark: Any) -> Shipped:
    """Make the package known to the executors of a session.

    Parameters
    ----------
    spark : SparkSession; where it runs on this machine alone (``local[…]``), nothing is shipped.
    """
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(executor_boot)  # type: ignore[no-untyped-call]
    context = spark.sparkContext
    if is_local(context.master):
        return Shipped(str(PACKAGE.parent), "")
    digest = hashlib.sha256()
    for path, place in shipped_files():
        digest.update(place.encode() + path.read_bytes())
    name = f"iqcar-{digest.hexdigest()[:16]}.zip"
    if not any(str(known).endswith(f"/{name}") for known in context.listFiles):
        folder = Path(tempfile.mkdtemp(prefix="iqcar-"))
        # Executors can come, and ask for it, as long as the application lives.
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        write_package(folder / name)
        context.addFile(str(folder / name))
    return Shipped("", name)


def write_package(file: Path) -> None:
    """Write the zip that executors unpack."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for path, place in shipped_files():
            packed.write(path, f"iqcar/{place}")


def shipped_files() -> list[tuple[Path, str]]:
    """Files that an executor needs, and their places in the package, in the order of names."""
    found = [path for path in PACKAGE.rglob("*") if path.suffix in (*SOURCES, *COMPILED)]
    own = [(path, path.relative_to(PACKAGE).as_posix()) for path in sorted(found) if path.is_file()]
    data = [(path, f"data/{path.name}") for path in map(shared_file, SHARED)]
    data += [(path, f"data/rules/{path.name}") for path in sorted(rules_folder().glob("*.json"))]
    # In a checkout data lies beside the package.
    return own + [(path, place) for path, place in data if not path.is_relative_to(PACKAGE)]
