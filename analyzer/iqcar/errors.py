"""Errors a user can cause, and the exit codes that report them.

Every message says what is wrong, where, and what to do. The command line catches
:class:`IqcarError` once and prints one line; a traceback is always a bug of ours.
"""

from __future__ import annotations

from enum import IntEnum


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


class IqcarError(Exception):
    """A problem the user can understand and mend: one line, no traceback.

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
