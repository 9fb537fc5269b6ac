"""Runs of a real Spark that were recorded once: who only reads what a run left starts no Spark.

What a run leaves lies in tests/golden, with the hash of what made it: the plugin, the job, the
settings and the version of Spark. Where the hash differs the run is made anew, and so it is on any
other Spark; ``scripts/record_golden`` writes the file anew, too. One of them is made anew in every
continuous integration, whatever its hash.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import os
import re
import socket
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

import zstandard

from tests.support.listener_spark import LISTENER, REPO, App, build_jar, read_events, spark_version

GOLDEN = REPO / "tests" / "golden"
HASHES = GOLDEN / "hashes.json"
RECORD = "IQCAR_RECORD_GOLDEN"
"""Environment variable: whether runs are made anew, and their files too."""
MADE_ANEW = "contended"
"""The run that continuous integration makes anew each time."""
LEVEL = 19
"""Of compression: the files are written seldom and fetched by everybody."""
APP = "app.json"
COMMENT = re.compile(rb"/\*.*?\*/|^\s*//[^\n]*", re.DOTALL | re.MULTILINE)

Part = Path | Mapping[str, str]
"""What a run is made of: a file, or settings."""


def recorded(
    name: str, home: Path, folder: Path, run: Callable[[Path], App | None], *made_of: Part
) -> Path:
    """Return the folder with what a run left: as it was recorded, or made anew.

    Parameters
    ----------
    name : str
    home : path
        Of the Spark.
    folder : path
        An empty folder.
    run : callable
        Makes the run in the folder; its source is part of the hash. Of the folder its event logs
        are kept, and what the application printed.
    *made_of : path or mapping
        Files and settings that the run is made by.
    """
    if not made_anew(name) and fresh(name, home, run, made_of):
        with tarfile.open(fileobj=io.BytesIO(unpacked(name))) as packed:
            for member in packed:
                path, content = folder / member.name, packed.extractfile(member)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read() if content else b"")
        return folder
    build_jar()
    app = run(folder)
    if app is not None:
        said = {"exit_code": app.exit_code, "output": app.output, "errors": app.errors[-3000:]}
        (folder / APP).write_text(json.dumps(said), "utf-8")
    if os.environ.get(RECORD):
        keep(name, home, folder, run, made_of)
    return folder


def recorded_app(
    name: str, home: Path, folder: Path, run: Callable[[Path], App], *made_of: Part
) -> App:
    """Return what one application left: see :func:`recorded`."""
    said = json.loads((recorded(name, home, folder, run, *made_of) / APP).read_text("utf-8"))
    return App(**said, events=read_events(folder), log=folder / "log")


def made_anew(name: str) -> bool:
    """Whether a run is made whatever was recorded."""
    return bool(os.environ.get(RECORD) or (os.environ.get("CI") and name == MADE_ANEW))


def fresh(name: str, home: Path, run: Callable[..., object], made_of: Iterable[Part]) -> bool:
    """Whether what was recorded is of the same Spark, plugin, job and settings."""
    return bool(hashes().get(name) == hash_of(home, run, made_of))


def hash_of(home: Path, run: Callable[..., object], made_of: Iterable[Part]) -> str:
    """The hash of all that makes a run."""
    parts = [spark_version(home), plugin_hash(), inspect.getsource(run)]
    parts += [one.read_text("utf-8") if isinstance(one, Path) else repr(one) for one in made_of]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def plugin_hash() -> str:
    """The hash of the sources of the plugin and of its test jar, without Java's comments."""
    found = hashlib.sha256()
    for path in sorted((LISTENER / "src").rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            content = path.read_bytes()
            if path.suffix == ".java":
                content = COMMENT.sub(b"", content)
            found.update(f"{path.relative_to(LISTENER)}\0".encode() + content)
    return found.hexdigest()


@cache
def hashes() -> dict[str, str]:
    """The hash of what made each run that was recorded."""
    return dict(json.loads(HASHES.read_text("utf-8"))) if HASHES.exists() else {}


def unpacked(name: str) -> bytes:
    """What was recorded, as a tar archive."""
    return zstandard.ZstdDecompressor().decompress((GOLDEN / f"{name}.tar.zst").read_bytes())


def keep(
    name: str, home: Path, folder: Path, run: Callable[..., object], made_of: Iterable[Part]
) -> None:
    """Write the files of a run, and the hash of what made it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and ("log" in path.relative_to(folder).parts or path.name == APP):
                text = of_anybody(path.read_text("utf-8"), folder, home)
                member = tarfile.TarInfo(path.relative_to(folder).as_posix())
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
    GOLDEN.mkdir(exist_ok=True)
    content = zstandard.ZstdCompressor(level=LEVEL).compress(packed.getvalue())
    (GOLDEN / f"{name}.tar.zst").write_bytes(content)
    known = json.loads(HASHES.read_text("utf-8")) if HASHES.exists() else {}
    known[name] = hash_of(home, run, made_of)
    HASHES.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")


def of_anybody(log: str, folder: Path, home: Path) -> str:
    """An event log without the machine's name, its paths and its user."""
    of_here = {str(folder): "/run", str(folder.parent): "/runs", str(REPO): "/iqcar"}
    of_here |= {str(home): "/spark", str(home.resolve()): "/spark"}
    of_here |= {sys.prefix: "/venv", sys.base_prefix: "/python"}
    places = re.compile("|".join(map(re.escape, sorted(of_here, key=len, reverse=True))))
    here = re.compile(rf"\b{re.escape(socket.gethostname())}\b")
    text = "".join(map(impersonal, log.splitlines(keepends=True)))
    return here.sub("localhost", places.sub(lambda found: of_here[found[0]], text))


def impersonal(line: str) -> str:
    """An event without what tells of the machine and nobody reads: paths, the user, the shell."""
    if "EnvironmentUpdate" not in line[:100]:
        return line
    event = json.loads(line)
    event |= {f"{what} Properties": {} for what in ("System", "Hadoop", "Metrics")}
    event["JVM Information"].pop("Java Home", None)
    return json.dumps({**event, "Classpath Entries": {}}) + "\n"
