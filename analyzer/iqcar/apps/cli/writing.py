"""Write results to files and standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from iqcar.base.files.derived import is_stream, write_derived
from iqcar.errors import ExitCode, IqcarError


def check_writable(target: str | None, force: bool) -> None:
    """Check before the analysis that a result can be written; raises IqcarError."""
    if target is None or target == "-":
        return
    path = Path(target)
    if is_stream(path):
        return
    if path.is_dir():
        raise IqcarError("is a folder", target, "name a file", ExitCode.USAGE)
    if os.path.lexists(path) and not force:
        raise IqcarError("exists already", target, "use --force to overwrite it", ExitCode.USAGE)
    if not path.absolute().parent.is_dir():
        raise IqcarError("its folder does not exist", target, "make it first", ExitCode.USAGE)


def write_result(target: str, content: str | bytes | Iterable[str | bytes]) -> None:
    """Write to a file as :func:`~iqcar.base.files.derived.write_derived`; ``-`` is the output."""
    sys.stdout.flush()  # keeps the order where the target is standard output
    if target == "-":
        for chunk in (content,) if isinstance(content, (str, bytes)) else content:
            data = chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk
            sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        write_derived(target, content)
    except BrokenPipeError:
        raise  # the reader has closed the pipe
    except OSError as error:
        raise IqcarError(f"cannot be written: {error.strerror}", target) from error
    typer.echo(f"Wrote {target}", err=True)
