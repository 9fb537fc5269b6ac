"""Changes a store in processes that are killed before each step, or that tell their steps.

A step makes, renames, removes or synchronises a file or folder below the store's.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from iqcar.history.store_views import merge_months
from iqcar.history.stored_files import open_store
from tests.support.stored_applications import keep

Step = tuple[Any, ...]
"""What is done, and to which path; of a file that is synchronised, its content too."""
CHANGES = {
    "add": lambda store: keep(store, "app-3", "c"),
    "merge": merge_months,
}
_PATHS = {"os.mkdir": 1, "os.rename": 2, "os.remove": 1}
"""Events of Python that are steps, and how many paths each has."""
TIMEOUT_S = 300


def _on_steps(root: Path, tell: Callable[[Step], None]) -> None:
    """Tell of each step before it is done, but for what is synchronised: after it."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        writes = event == "open" and args[2] & os.O_CREAT
        number = 1 if writes else _PATHS.get(event, 0)
        paths = [Path(os.fspath(path)) for path in args[:number]]
        if paths and paths[0].is_relative_to(root):
            tell((event, *paths))

    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        tell(("sync", path, None if path.is_dir() else path.read_bytes()))

    os.fsync = fsync
    sys.addaudithook(hook)


def _run(what: str, root: Path) -> None:
    CHANGES[what](open_store(str(root)))


def _killed(what: str, root: Path) -> None:
    """Make copies of a store, each killed before one more step; the last one ends by itself."""
    for number in count():
        copy = root.with_name(f"{root.name}-{number}")
        if root.exists():
            shutil.copytree(root, copy)
        if (process := os.fork()) == 0:
            left = iter(range(number))

            def tell(_: Step, left: Any = left) -> None:
                if next(left, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)

            _on_steps(copy, tell)
            _run(what, copy)
            os._exit(0)
        if os.waitpid(process, 0)[1] == 0:
            return


def _told(what: str, root: Path) -> None:
    """Change a store; write its steps beside it."""
    steps: list[Step] = []
    _on_steps(root, steps.append)
    _run(what, root)
    root.with_name("steps").write_bytes(pickle.dumps(steps))


def killed_stores(what: str, root: Path) -> list[Path]:
    """Return copies of a store whose change was killed before each step, the whole one last."""
    _in_a_process("_killed", what, root)
    return [root.with_name(f"{root.name}-{n}") for n in range(len([*root.parent.iterdir()]))][:-1]


def steps_of(what: str, root: Path) -> list[Step]:
    """Change a store; return the steps."""
    _in_a_process("_told", what, root)
    steps: list[Step] = pickle.loads(root.with_name("steps").read_bytes())  # noqa: S301
    return steps


def _in_a_process(function: str, what: str, root: Path) -> None:
    program = f"import sys; sys.path[:] = sys.argv[1:]; from pathlib import Path; from {__name__} "
    program += f"import {function} as main; main({what!r}, Path({str(root)!r}))"
    subprocess.run([sys.executable, "-c", program, *sys.path], check=True, timeout=TIMEOUT_S)


class Disk:
    """What is on a disk if the machine stops after some steps.

    keeps_names : whether names are kept at once; else only what a synchronised folder holds. Of
        files, only content that was synchronised is kept.
    """

    def __init__(self, root: Path, *, keeps_names: bool) -> None:
        self.root, self.keeps_names = root.parent, keeps_names
        found = [*root.rglob("*"), *([root] if root.exists() else [])]
        self.now = {path: [None if path.is_dir() else path.read_bytes()] for path in found}
        self.kept = dict(self.now)

    def do(self, step: Step) -> None:
        what, path, *more = step
        if what in ("open", "os.mkdir"):
            self.now[path] = [b"" if what == "open" else None]
        elif what == "os.rename":
            self.now[more[0]] = self.now.pop(path)
        elif what == "os.remove":
            del self.now[path]
        elif more[0] is not None:
            self.now[path][0] = more[0]
        else:
            self.kept = {p: held for p, held in self.kept.items() if p.parent != path}
            self.kept |= {p: held for p, held in self.now.items() if p.parent == path}
        if self.keeps_names:
            self.kept = dict(self.now)

    def state(self) -> dict[Path, bytes | None]:
        """Files, by their paths, and folders."""
        found: dict[Path, bytes | None] = {}
        for path, (content,) in sorted(self.kept.items()):
            if path.parent == self.root or path.parent in found:
                found[path] = content
        return found
