"""The command line in processes that are forked from one that has imported it already.

A process of its own for every command, with its own streams, exit code and limits, but without the
second of CPU time that imports take.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

TIMEOUT_S = 300
IMPORTED = [
    "iqcar.cli.main", "iqcar.pipeline", "iqcar.report.html", "iqcar.report.terminal.analyze",
    "iqcar.report.json.analyze", "iqcar.eventlog", "iqcar.attach.spark_conf",
]  # fmt: skip
"""What the first process imports; a command imports the rest when it needs it."""

_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload(IMPORTED)


def iqcar(
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    memory_limit: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command as ``python -m iqcar`` does.

    Parameters
    ----------
    *arguments : object
        The words of the command line.
    cwd : Path, optional
    env : mapping, optional
        Variables beside those of this process.
    memory_limit : int, optional
        Bytes that its data segment may take.
    """
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder, "out"), Path(folder, "errors")
        variables = {**os.environ, **(env or {})}
        place = str(cwd or Path.cwd())
        child = _forking.Process(
            target=_run, args=(words, str(out), str(errors), place, variables, memory_limit)
        )
        child.start()
        child.join(TIMEOUT_S)
        if child.exitcode is None:
            child.kill()
            child.join()
            raise subprocess.TimeoutExpired(words, TIMEOUT_S)
        return subprocess.CompletedProcess(
            words, child.exitcode, out.read_text("utf-8"), errors.read_text("utf-8")
        )


def _run(
    words: list[str],
    out: str,
    errors: str,
    place: str,
    variables: dict[str, str],
    memory_limit: int | None,
) -> None:
    from iqcar.cli.main import main

    for number, path in ((1, out), (2, errors)):
        to = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(to, number)
        os.close(to)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(place)
    if memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_limit, memory_limit))
    sys.argv = ["iqcar", *words]
    main()
