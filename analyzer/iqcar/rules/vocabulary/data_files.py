"""Reads the data files of the rules: schema, template of the guide, and vocabularies.

A vocabulary gives each cause, topic or kind of advice a name and sentences. None of it ever
becomes a scheduler pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from iqcar.enums import BlameKind, Resource, WasteCause
from iqcar.errors import IqcarError
from iqcar.logs.text import compiled, encoded

RULE_SCHEMA = "rule.schema.json"
"""JSON Schema of a rules file."""
HOW_TO = "how-to.md"
"""Template of the page that says how to apply compiled rules; names stand as ``$name``."""
MOST_BYTES = 1_000_000
"""Largest file that is read as a vocabulary."""


class Advice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a vocabulary: what it is called, what it means, and what to do about it."""

    name: str
    sentence: str
    advice: str


class CauseAdvice(Advice, frozen=True, forbid_unknown_fields=True):
    """A cause, and what to record besides where the plugin did not record the run."""

    unrecorded: str = ""

    def told(self, recorded: bool) -> str:
        """Return what to do; nobody is told to record what was recorded."""
        return self.advice if recorded else f"{self.advice} {self.unrecorded}".rstrip()


Entry = TypeVar("Entry", bound=msgspec.Struct)


def rules_folder() -> Path:
    """Return the folder of the data files: in the installed package, else in the repository.

    Raises FileNotFoundError if it is in neither, which an installation can never cause.
    """
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "data" / "rules", package.parents[1] / "rules"):
        if (folder / RULE_SCHEMA).is_file():
            return folder
    raise FileNotFoundError(f"{RULE_SCHEMA} is missing from the iqcar installation at {package}")


def read_data(name: str) -> str:
    """Text of one data file."""
    return (rules_folder() / name).read_text(encoding="utf-8")


def rule_schema() -> str:
    """JSON Schema of a rules file, as text."""
    return read_data(RULE_SCHEMA)


def read_vocabulary(
    file: str, key: str, entry: type[Entry], path: str = "", what: str = ""
) -> Mapping[str, Entry]:
    """Read a vocabulary.

    Raises IqcarError if the user's file cannot be read, is too large, or has another format; names
    the place.

    file: Name of ours in :func:`rules_folder`.
    key: Field of the file that holds the entries by name.
    entry: type Struct of an entry.
    path: A user's file in the same format, to be read instead of ours.
    what: What an error calls the user's file.
    """
    fields = [
        ("schema_version", Literal["1"]),
        ("acts_on", Literal["advice"]),
        (key, Annotated[dict[str, entry], msgspec.Meta(min_length=1)]),  # type: ignore[valid-type]
    ]
    vocabulary = msgspec.defstruct("Vocabulary", fields, forbid_unknown_fields=True)
    try:
        data = _bytes_of(path, what) if path else read_data(file).encode()
        entries: dict[str, Entry] = getattr(msgspec.json.decode(data, type=vocabulary), key)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise broken(str(error), file, path, what) from error
    return entries


def broken(problem: str, file: str, path: str, what: str) -> IqcarError:
    """Error for a file that is no vocabulary."""
    see = f"see rules/{file} for the format"
    return IqcarError(f"is no vocabulary of {what}: {problem}", path, see)


def _bytes_of(path: str, what: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise IqcarError(f"cannot be read: {reason}", path, "check the path") from error
    if len(data) > MOST_BYTES:
        raise IqcarError(f"is too large for a vocabulary of {what}", path)
    return data


ADVICE = "advice.json"
"""Causes of lost time: name, sentence, and what a Spark engineer would do about each."""
OWN_STAGE, GARBAGE_COLLECTION, NO_EXECUTORS = "own-stage", "gc", "executors-not-there"
UNATTRIBUTED, SLOW_HOST, CPU_LIMIT = "unattributed", "slow-host", "cpu-limit"
PAGE_FAULTS = "page-faults"
OTHER_APPLICATION, LONG_TASKS = "other-application", "long-tasks"
SOURCE = "$source"
"""Where advice against long tasks names their query."""


@cache
def vocabulary() -> Mapping[str, CauseAdvice]:
    """All causes by key."""
    return read_vocabulary(ADVICE, "causes", CauseAdvice)


def cause_of(kind: BlameKind | str, resource: Resource | str, limited: bool = False) -> str:
    """Key of the cause of a part of lost time.

    Returns: The resource where another query held it; ``own-stage``, ``unattributed``; for known
    causes ``gc`` or ``cpu-limit`` (CPU), ``executors-not-there`` (slots),
    ``page-faults`` (memory) or ``slow-host`` (network, disks).

    kind: Whom the part is put down to.
    resource: What was waited for.
    limited: Whether a CPU limit was.
    """
    kind, resource = BlameKind(kind), Resource(resource)
    if kind is BlameKind.OWN:
        return OWN_STAGE
    if kind is BlameKind.UNATTRIBUTED:
        return UNATTRIBUTED
    if kind is BlameKind.KNOWN:
        known = {
            Resource.CPU: CPU_LIMIT if limited else GARBAGE_COLLECTION,
            Resource.SLOTS: NO_EXECUTORS,
            Resource.MEMORY: PAGE_FAULTS,
        }
        return known.get(resource, SLOW_HOST)
    return str(resource)


def advice_for(cause: str, recorded: bool = False) -> str:
    """What helps against a cause, as a sentence or two.

    cause: Its key.
    recorded: Whether the plugin recorded the application: nobody is told to do that again.
    """
    return vocabulary()[cause].told(recorded)


WASTED = "wasted.json"
"""Causes of wasted work: name, sentence, and what a Spark engineer would do about each."""

_LOST_FOR = (
    # -103: YARN's exit status for it. It is not what the host has: more overhead seldom helps.
    ("executor-lost-virtual-memory", r"virtual memory limit|(?:code|status)(?: is)?\W{1,3}-103\b"),
    (
        "executor-lost-memory",
        # 52 is Spark's own exit code after an OutOfMemoryError, -104 YARN's for physical memory.
        r"memory limit|out ?of ?memory|OOMKilled|(?:code|status)(?: is)?\W{1,3}(?:52|-104)\b",
    ),
    (
        "executor-lost-node",
        # -100: released because its node was lost; -101: its node's disks failed.
        r"\*lost\* node|disks? failed|(?:code|status)(?: is)?\W{1,3}-10[01]\b",
    ),
    (
        "executor-lost-manager",
        # -105, -106, -107: by the application's master, the resource manager, after the end.
        r"(?:code|status)(?: is)?\W{1,3}-10[567]\b",
    ),
    (
        "executor-lost-killed",
        r"(?:code|status)(?: is)?\W{1,3}1(?:37|43)\b|killed by external signal|SIG(?:KILL|TERM)",
    ),
    ("executor-lost-silent", r"heartbeat"),
)
"""What Spark says of a lost executor, in the words of its cluster managers, from sure to unsure."""


@cache
def waste_causes() -> Mapping[str, Advice]:
    """All causes of wasted work by key: those of ``WasteCause``, and kinds of lost executor."""
    return read_vocabulary(WASTED, "causes", Advice)


def waste_cause(cause: str, message: str) -> Advice:
    """Return what is known of one cause.

    cause: A value of :class:`iqcar.enums.WasteCause`.
    message: What Spark said of it.
    """
    key = cause
    if cause == WasteCause.EXECUTOR_LOST:
        for kind, words in _LOST_FOR:
            if compiled(f"(?i){words}").search(encoded(message)) is not None:
                key = kind
                break
    return waste_causes()[key]
