"""Reads names, sentences and advice for causes of lost time and of wasted work."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from iqcar.enums import BlameKind, Resource, WasteCause
from iqcar.logs.text.linear import compiled, encoded
from iqcar.rules.vocabulary.data_files import Advice, CauseAdvice, read_vocabulary

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
