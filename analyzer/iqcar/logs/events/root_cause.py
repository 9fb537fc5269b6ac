"""Finds the line that says what happened in the text of an error: the root cause of its chain.

An error of Spark wraps others: a job aborted for a stage, that for a task, that for an exception
with causes of its own, that for a traceback of Python. The text has up to a megabyte; the line has
a few hundred characters.
"""

from __future__ import annotations

from iqcar.base.units import cut, printable
from iqcar.logs.text import redact_text

MOST_CHARACTERS = 400
"""Characters kept of an error: a sentence or two."""
_READ = 65_536
"""Characters looked at from the start of a text, and from its end: causes stand at the end."""
_SEARCHED = 2_000
"""Characters of the line that are searched for secrets before it is cut."""
_LINKS = 50
"""Causes of one chain that are looked at."""
_CLASS = 200
"""Characters of the longest name of a class."""

_MOST_RECENT = "ost recent failure"
_TASK = "Lost task "
_ABORTED = "Job aborted due to stage failure: "
_LOST, _FOR = "ExecutorLostFailure (", ") Reason: "
_CAUSED, _FRAME = "\nCaused by: ", "\n\tat "
_DRIVER = "\nDriver stacktrace:"
TRACEBACK = "Traceback (most recent call last):"
"""How Python's own account of an error starts; behind it, the line that is not set in names it."""
_TELLING = ("PythonException", "FetchFailedException")
"""Exceptions of Spark that say where what they wrap happened: their name is kept before it."""
_SAYING_LITTLE = frozenset(
    (
        "ClosedChannelException", "CompletionException", "EOFException", "ExecutionException",
        "InterruptedException", "InvocationTargetException", "TimeoutException",
        "UndeclaredThrowableException",
    )
)  # fmt: skip
"""Exceptions that say less than the one that they caused."""
_VAGUE = (
    "Job aborted.", "SparkException: Job aborted.", "Writing job aborted",
    "[WRITING_JOB_ABORTED]", "Multiple failures in stage materialization",
    "[MULTIPLE_FAILURES]", "Exception thrown in awaitResult",
)  # fmt: skip
"""How errors start that only say that another one happened."""


def root_cause(text: str | None, named: str = "") -> str:
    r"""Return what an error says happened: one line, bounded, without secrets.

    text: the message or stack trace, with all that it wraps; empty if None.
    named: class of the exception, where the text does not begin with it.

    >>> root_cause("java.lang.RuntimeException: no\n\tat A.b(A.java)\nCaused by: a.B: c")
    'B: c'
    """
    if not text or not text.strip():
        return _simple(named)
    if len(text) > 2 * _READ:
        text = f"{text[:_READ]}\n{text[-_READ:]}"
    first, *causes = _unwrapped(text.strip()).split(_CAUSED)
    links = [_link(first, named), *(_link(cause) for cause in causes[-_LINKS:])]
    said = [link for link in links if link]
    telling = [name for name in _TELLING if any(link.startswith(name) for link in said)]
    line = next(
        (link for link in reversed(said) if _class_of(link) not in _SAYING_LITTLE),
        said[-1] if said else "",
    )
    where = next((name for name in telling if not line.startswith(name)), "")
    line = f"{where}: {line}" if where else line
    # Secrets first: one whose end is cut off is known by its start no more.
    return cut(redact_text(line, _SEARCHED), MOST_CHARACTERS)


def is_vague(line: str) -> bool:
    """Tell whether an error only says that there was another one."""
    return not line or line.startswith(_VAGUE)


def is_cancelled(line: str) -> bool:
    """Tell whether a job's error says that it was cancelled, be it for another one's error."""
    return "cancelled" in line.lower()


def _unwrapped(text: str) -> str:
    """Return what Spark says of the last task that failed, where it says so; else the text."""
    at = text.find(_MOST_RECENT, 0, _READ)
    if at >= 0 and (colon := text.find(":", at, at + len(_MOST_RECENT) + 10)) >= 0:
        text = text[colon + 1 :].lstrip()
    text = text.removeprefix(_ABORTED)
    if text.startswith(_TASK) and (end := text.find("): ", 0, _SEARCHED)) >= 0:
        text = text[end + 3 :]
    if text.startswith(_LOST) and (end := text.find(_FOR, 0, _SEARCHED)) >= 0:
        text = f"ExecutorLostFailure: {text[end + len(_FOR) :]}"
    return text


def _link(text: str, named: str = "") -> str:
    """Return the line of one link of a chain, its class by its own name alone."""
    said = text.partition(_FRAME)[0].partition(_DRIVER)[0].strip()
    head = said.partition("\n")[0].strip()
    if (at := said.rfind(TRACEBACK)) >= 0:
        return _of_python(said[at:], named or head)
    if head.endswith(":") and "\n" in said:
        head = f"{head} {said.partition(chr(10))[2].strip().partition(chr(10))[0].strip()}"
    line = " ".join(printable(head[: 2 * _SEARCHED]).split())
    line, mine = _simple(line), _simple(named)
    if not mine or line.startswith(mine):
        return line
    return f"{mine}: {line}" if line else mine


def _of_python(trace: str, head: str) -> str:
    """Return the line of a traceback that names the error, behind the exception it came with."""
    lines = trace.split("\n")[1:]
    error = next((line for line in lines if line.strip() and not line[0].isspace()), "")
    line = _simple(" ".join(printable(error[: 2 * _SEARCHED]).split()))
    # Spark ≥ 4 gives the query's own error without the class that wraps it.
    wrapper = _class_of(_simple(head)) or _TELLING[0]
    return f"{wrapper}: {line}" if line else wrapper


def _simple(line: str) -> str:
    """Return a line with the class at its start, if it names one, without its package."""
    name, colon, rest = line.partition(":")
    if len(name) > _CLASS or "." not in name or not _is_name(name):
        return line
    return f"{name.rpartition('.')[2]}{colon}{rest}"


def _class_of(line: str) -> str:
    """Return the name of the class at the start of a line; empty if there is none."""
    name = line.partition(":")[0]
    return name if len(name) <= _CLASS and _is_name(name) else ""


def _is_name(text: str) -> bool:
    return text.replace(".", "").replace("$", "").replace("_", "").isalnum() and text[-1] != "."
