"""Errors a user can cause, and the exit codes that report them.

Every message says what is wrong, where, and what to do. The command line catches
:class:`IqcarError` once and prints one line. Any other exception is a bug of iqcar: it is
printed as one line too, with a traceback only if :data:`DEBUG` is set.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path

DEBUG = "IQCAR_DEBUG"
"""Environment variable; unless it is empty or 0, tracebacks of bugs are printed. Child processes
inherit it."""
_MOST_SHOWN = 200
"""Characters of an exception's message that are shown."""


class ExitCode(IntEnum):
    """Exit codes of every ``iqcar`` command."""

    OK = 0
    """Everything was analysed."""
    NOTHING = 1
    """Nothing could be analysed."""
    USAGE = 2
    """The command line was wrong."""
    PARTIAL = 3
    """Analysed, but some input failed or was truncated."""
    GATE = 4
    """Two sets of runs were compared, and a query is slower than ``--fail-on`` allows."""


class IqcarError(Exception):
    """A problem that the user can understand and fix: printed as one line, without a traceback.

    Parameters
    ----------
    what : str
        What is wrong, as a sentence without its full stop.
    where : str
        Path, option or field that the problem is about; may be empty.
    advice : str
        What to do about it; may be empty.
    exit_code : ExitCode
        The exit code of a command that ends with this error.
    """

    def __init__(
        self, what: str, where: str = "", advice: str = "", exit_code: ExitCode = ExitCode.NOTHING
    ) -> None:
        self.what = what
        self.where = where
        self.advice = advice
        self.exit_code = exit_code
        line = f"{where}: {what}" if where else what
        super().__init__(f"{line}; {advice}" if advice else line)


class UsageError(IqcarError):
    """The user asked for something that does not exist (an unknown query, an unknown option)."""

    def __init__(self, what: str, where: str = "", advice: str = "") -> None:
        super().__init__(what, where, advice, ExitCode.USAGE)


def did_you_mean(wanted: str, known: Iterable[str], otherwise: str) -> str:
    """Advise the known names that are nearest to one that there is not; else what is given."""
    from difflib import get_close_matches

    near = get_close_matches(wanted, list(known), n=3, cutoff=0.4)
    return f"did you mean {' or '.join(near)}" if near else otherwise


def is_debugging() -> bool:
    """Tell whether :data:`DEBUG` is set."""
    return os.environ.get(DEBUG, "") not in ("", "0")


def explain_bug(error: Exception) -> str:
    """Describe a bug of iqcar in one line; print the traceback if :data:`DEBUG` is set.

    Returns
    -------
    str
        The exception, the line of iqcar that raised it, and what to do about it.
    """
    if isinstance(error, MemoryError):
        return "needs more memory than there is"
    if is_debugging():
        traceback.print_exception(error, file=sys.stderr)
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "iqcar" in frame.filename] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    words = " ".join(str(error).split())[:_MOST_SHOWN]
    advice = (
        "please report it" if is_debugging() else f"please report it with what {DEBUG}=1 prints"
    )
    return f"hit a bug of iqcar ({type(error).__name__} at {where}: {words}); {advice}"
