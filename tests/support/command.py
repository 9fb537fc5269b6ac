"""The command line in processes that are forked from one that has imported it already.

A process of its own for every command, with its own streams, exit code and limits, but without the
second of CPU time that imports take.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

TIMEOUT_S = 300
_forking = multiprocessing.get_context("forkserver")
_IMPORTED = "tests.support.command_imports"
_forking.set_forkserver_preload([_IMPORTED])


class Forked:
    """A command that runs, used as :class:`subprocess.Popen` is.

    Parameters
    ----------
    *arguments : object
        The words of the command line.
    constants : mapping, optional
        Dotted names of constants of the package, and the values that they have in this process.
    """

    def __init__(self, *arguments: object, constants: Mapping[str, float] | None = None) -> None:
        words = [str(argument) for argument in arguments]
        outputs, inputs = zip(*(_forking.Pipe(duplex=False) for _ in range(2)), strict=True)
        self._process = _forking.Process(
            target=_run_into, args=(words, *inputs, dict(os.environ), dict(constants or {}))
        )
        self._process.start()
        for end in inputs:
            end.close()
        self.stdout, self.stderr = map(_reader, outputs)
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.pid is not None and self.poll() is None:
            os.kill(self.pid, number)


def _reader(end: Connection) -> TextIO:
    file = open(os.dup(end.fileno()), encoding="utf-8")  # noqa: PTH123, SIM115
    end.close()
    return file


def iqcar(
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    memory_limit: int | None = None,
    package: str = "iqcar.apps.cli",
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
    package : str
        The package with the ``main`` module of the command.
    """
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder, "out"), Path(folder, "errors")
        variables = {**os.environ, **(env or {})}
        place, files = str(cwd or Path.cwd()), [str(out), str(errors)]
        child = _forking.Process(
            target=_run, args=(words, files, place, variables, memory_limit, package)
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


def iqcar_lab(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the laboratory's command as ``python -m iqcar_lab`` does."""
    return iqcar(*arguments, cwd=cwd, package="iqcar_lab.commands")


def _run(
    words: list[str],
    paths: list[str],
    place: str,
    variables: dict[str, str],
    memory_limit: int | None,
    package: str,
) -> None:
    files = [os.open(path, os.O_WRONLY | os.O_CREAT) for path in paths]
    os.chdir(place)
    if memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_limit, memory_limit))
    _main(words, files, variables, package)


def _run_into(
    words: list[str],
    out: Connection,
    errors: Connection,
    variables: dict[str, str],
    constants: dict[str, float],
) -> None:
    for dotted, value in constants.items():
        module, _, name = dotted.rpartition(".")
        assert hasattr(import_module(module), name), dotted
        setattr(import_module(module), name, value)
    if words[0] == "serve":
        _fork_server_beside()
    _main(words, [out.fileno(), errors.fileno()], variables)


def _fork_server_beside() -> None:
    """Give `iqcar serve` a fork server that is forked, too: it has imported everything already."""
    from iqcar.apps.serve import fork_server

    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.setsid()
        os.dup2(theirs.fileno(), 0)
        theirs.close()
        fork_server.main()
    theirs.close()

    async def end() -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    async def launch() -> tuple[socket.socket, Callable[[], Awaitable[object]]]:
        fork_server.launch = launch_another
        return ours, end

    launch_another, fork_server.launch = fork_server.launch, launch


async def launch_imported() -> tuple[socket.socket, Callable[[], Awaitable[object]]]:
    """Launch a fork server that has imported everything, for a service in this process.

    To be used in place of :func:`iqcar.apps.serve.fork_server.launch`.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        process = _forking.Process(target=_become_fork_server, args=(theirs,))
        process.start()

    async def kill() -> None:
        process.kill()
        process.join()

    return ours, kill


def _become_fork_server(channel: socket.socket) -> None:
    from iqcar.apps.serve import fork_server

    os.setsid()
    os.dup2(channel.fileno(), 0)
    channel.close()
    fork_server.main()


def _main(
    words: list[str],
    files: list[int],
    variables: dict[str, str],
    package: str = "iqcar.apps.cli",
) -> None:
    # A fork server passes over what it cannot import, and each command would take a second longer.
    assert _IMPORTED in sys.modules, f"{_IMPORTED} cannot be imported"
    main = import_module(f"{package}.main").main
    for number, file in zip((1, 2), files, strict=True):
        os.dup2(file, number)
        os.close(file)
    sys.stdout = open(1, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    # A shell lets what it runs in the background ignore it, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = [package.partition(".")[0].replace("_", "-"), *words]
    main()
