"""Writing results to files and standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from iqcar.errors import ExitCode, IqcarError


def check_writable(target: str | None, force: bool) -> None:
    """Refuse early, before hours of analysis, what could not be written at the end."""
    if target is None or target == "-":
        return
    path = Path(target)
    if path.is_dir():
        raise IqcarError("is a folder", target, "name a file", ExitCode.USAGE)
    if path.exists() and not force:
        raise IqcarError("exists already", target, "use --force to overwrite it", ExitCode.USAGE)
    if not path.absolute().parent.is_dir():
        raise IqcarError("its folder does not exist", target, "make it first", ExitCode.USAGE)


def write_result(target: str, content: bytes | Iterable[bytes]) -> None:
    """Write to a file, through a temporary one so that no half result is left; ``-`` is stdout."""
    chunks = (content,) if isinstance(content, bytes) else content
    if target == "-":
        sys.stdout.buffer.writelines(chunks)
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.writelines(chunks)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise IqcarError(f"cannot be written: {error.strerror}", target) from error
    typer.echo(f"Wrote {target}", err=True)
