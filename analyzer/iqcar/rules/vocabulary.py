"""Reads the data files of the rules: schema, template of the guide, and vocabularies.

A vocabulary gives each cause, topic or kind of advice a name and sentences. None of it ever
becomes a scheduler pool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec

from iqcar.enums import BlameKind, QueryStatus, Resource, WasteCause
from iqcar.errors import IqcarError
from iqcar.logs.text import compiled, encoded

if TYPE_CHECKING:
    from iqcar.causes.stragglers.straggler_result import Stragglers


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
    package = Path(__file__).resolve().parents[1]
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


@cache
def waste_causes() -> Mapping[str, Advice]:
    """All causes of wasted work by key: those of ``WasteCause``, and kinds of lost executor."""
    return read_vocabulary(WASTED, "causes", Advice)


def waste_cause(cause: str, message: str) -> Advice:
    """Return what is known of one cause.

    cause: A value of :class:`iqcar.enums.WasteCause`.
    message: What Spark said of it.
    """
    if cause == WasteCause.EXECUTOR_LOST and (why := error_key(message)) in _OF_EXECUTORS:
        return errors()[why]
    return waste_causes()[cause]


ERRORS = "errors.json"
"""Kinds of errors: words by which each is known, name, sentence, and what to do about each."""
RELEASED, PREEMPTED, UNKNOWN_ERROR = "released", "preempted", "unknown"
STOPPED = ("cancelled", "shut-down")
"""Errors that are somebody's decision."""
_OF_EXECUTORS = frozenset(
    (
        "executor-lost-virtual-memory", "executor-lost-memory", "executor-lost-silent",
        "executor-lost-heartbeat", "executor-lost-node", "executor-lost-manager",
        "executor-lost-killed", "executor-start", "heap-memory",
    )
)  # fmt: skip
"""Errors that say why an executor was lost."""


class ErrorAdvice(Advice, frozen=True, forbid_unknown_fields=True):
    """One kind of error, with the patterns by which it is known, in any case of letters."""

    words: tuple[str, ...]


@cache
def errors() -> Mapping[str, ErrorAdvice]:
    """All kinds of errors by key, in the order in which they are looked for."""
    return read_vocabulary(ERRORS, "errors", ErrorAdvice)


@cache
def _error_patterns() -> tuple[tuple[str, Any], ...]:
    return tuple(
        (key, compiled(f"(?i){'|'.join(f'(?:{one})' for one in known.words)}"))
        for key, known in errors().items()
        if known.words
    )


@lru_cache(4096)
def error_key(message: str) -> str:
    """Return which kind of error a line tells; ``unknown`` if none.

    >>> error_key("OutOfMemoryError: Java heap space"), error_key("Job 3 cancelled")
    ('heap-memory', 'cancelled')
    """
    text = encoded(message)
    found = (key for key, words in _error_patterns() if words.search(text) is not None)
    return next(found, UNKNOWN_ERROR)


def query_status(ended: bool, failed: bool, error: str) -> QueryStatus:
    """Say what became of a query: whether its end is in the log, whether it failed, and why."""
    if failed:
        return QueryStatus.CANCELLED if error_key(error) in STOPPED else QueryStatus.FAILED
    return QueryStatus.SUCCEEDED if ended else QueryStatus.RUNNING


CAUSES = "causes.json"
"""Causes of stragglers: name, sentence, and what a Spark engineer would do about each."""


@cache
def straggler_causes() -> Mapping[str, CauseAdvice]:
    """All causes of stragglers by key."""
    return read_vocabulary(CAUSES, "causes", CauseAdvice)


UNEXPLAINED = CauseAdvice("unexplained", "Nothing recorded sets them apart.", "")


def straggler_cause(key: str) -> CauseAdvice:
    """Return one cause; a metric of a trace is called by its own name and has no advice.

    An empty key stands for stragglers that nothing explains.
    """
    if not key:
        return UNEXPLAINED
    known = straggler_causes().get(key)
    return known or CauseAdvice(key, f"Its {key} is far above that of its peers.", "")


def what_helps(key: str, found: Stragglers) -> str:
    """Return the advice against a cause of some stragglers; empty where there is none."""
    return straggler_cause(key).told(found.recorded(key))


TOPIC_NAMES = "topics.json"
"""Names of topics: keywords they are known by, sentence, and what to do about each."""
LEAST_MATCH = 0.5
"""A name fits a topic if its keywords have at least this part of the topic's weight."""


class TopicAdvice(Advice, frozen=True, forbid_unknown_fields=True):
    """One name of a topic, with the words by which it is known."""

    keywords: tuple[str, ...]
    resource: Literal["", "slots", "cpu", "memory", "network", "io"] = ""


@dataclass(frozen=True)
class TopicName:
    """What a topic is called.

    key: key in the vocabulary; empty if no name fits alone
    name, sentence, advice: words; two names where only two together fit, and the keywords without
        advice where not even those do
    resource: what is lacking, of :class:`iqcar.enums.Resource`; empty if the topic is no lack
    """

    key: str
    name: str
    sentence: str
    advice: str
    resource: str


@cache
def topic_vocabulary(path: str = "") -> Mapping[str, TopicAdvice]:
    """Read the names of topics: ours, or those of a file in the same format.

    Raises IqcarError if the file cannot be read or is no such vocabulary.
    """
    return read_vocabulary(TOPIC_NAMES, "topics", TopicAdvice, path, "topics")


RESTS = {"off_cpu_ms(+)": 0.5}
"""Words that tell less than others: this time follows from any cause that nothing else explains."""


def topic_name(words: Mapping[str, float], names: str = "") -> TopicName:
    """Name a topic after its words: the name whose keywords have most of its weight.

    words: weights by word, the heaviest first
    names: path of a vocabulary; ours by default.
    """
    vocabulary = topic_vocabulary(names)
    told = {word: RESTS.get(word, 1.0) * share for word, share in words.items()}
    words = {word: share / sum(told.values()) for word, share in told.items()}
    weights = {
        key: sum(share for word, share in words.items() if _fits(word, known))
        for key, known in vocabulary.items()
    }
    best = max(weights, key=lambda key: round(weights[key], 9), default="")
    if best and weights[best] >= LEAST_MATCH:
        known = vocabulary[best]
        return TopicName(best, known.name, known.sentence, known.advice, known.resource)
    listed = ", ".join(words) or "no keyword"
    sentence = f"Stragglers stand out by {listed}."
    rest = {word: share for word, share in words.items() if not _fits(word, vocabulary[best])}
    beside = {
        key: sum(share for word, share in rest.items() if _fits(word, known))
        for key, known in vocabulary.items()
    }
    second = max(beside, key=lambda key: round(beside[key], 9))
    if weights[best] + beside[second] >= LEAST_MATCH and beside[second] > 0:
        two = (vocabulary[best], vocabulary[second])
        both = " and ".join(entry.name for entry in two)
        return TopicName("", both, sentence, " ".join(entry.advice for entry in two), "")
    return TopicName("", listed, sentence, "", "")


def _fits(word: str, known: TopicAdvice) -> bool:
    return any(fnmatchcase(word.lower(), pattern) for pattern in known.keywords)


ADVICE_KINDS = "advice_kinds.json"
"""Kinds of advice: causes and topics that each is against, what to do, settings."""
HOST = "$host"
"""Stands for the host's name in texts."""

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
_Version = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+$")]


class AdviceSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One setting of Spark: what to set it to, why, and for which Sparks and queries."""

    name: Annotated[str, msgspec.Meta(pattern=r"^spark\.", max_length=100)]
    value: _Text
    why: _Text
    since: _Version | None = None
    until: _Version | None = None
    only: Literal["sql", "rdd", "cluster", "local"] | None = None


class AdviceKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of advice."""

    name: _Text
    how: _Text
    causes: tuple[str, ...]
    topics: tuple[str, ...]
    scope: Literal["query", "application", "host"]
    stages: Annotated[int, msgspec.Meta(ge=1)]
    do: _Text
    settings: tuple[AdviceSetting, ...]
    unrecorded: Annotated[str, msgspec.Meta(max_length=500)] = ""


@cache
def advice_kinds(path: str = "") -> Mapping[str, AdviceKind]:
    """Read the kinds of advice: ours, or those of a file in the same format.

    Raises IqcarError if the file cannot be read, is no such vocabulary, or names a cause or topic
    that does not exist; names the place.
    """
    kinds = read_vocabulary(ADVICE_KINDS, "kinds", AdviceKind, path, "advice")
    if path and (problem := problem_of(kinds)):
        raise broken(problem, ADVICE_KINDS, path, "advice")
    return kinds


def problem_of(kinds: Mapping[str, AdviceKind]) -> str:
    """What the types of the fields cannot tell: unknown causes, topics and placeholders."""
    known = {"causes": straggler_causes(), "topics": topic_vocabulary()}
    for key, kind in kinds.items():
        for field, names in known.items():
            for number, name in enumerate(getattr(kind, field)):
                if name not in names:
                    at = f"`$.kinds.{key}.{field}[{number}]`"
                    return f"there is no {field[:-1]} {name!r} - at {at}"
        texts = {"do": kind.do, "how": kind.how, "unrecorded": kind.unrecorded}
        texts |= {f"settings[{n}].value": setting.value for n, setting in enumerate(kind.settings)}
        for place, text in texts.items():
            if text.count("$") != text.count(HOST):
                return f"only {HOST} can be filled in - at `$.kinds.{key}.{place}`"
    return ""


def version_of(text: str) -> tuple[int, int] | None:
    """Major and minor number of a version of Spark; None if the log does not say."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", text)
    return (int(found[1]), int(found[2])) if found else None


def fits(setting: AdviceSetting, version: tuple[int, int] | None, sql: bool, local: bool) -> bool:
    """Tell whether a setting is there, and does something, where the stragglers were.

    version: (major, minor), optional Of Spark; one that is not known is taken for the newest.
    sql: whether a query of Spark SQL is among those it is for
    local: whether the driver's JVM ran the tasks
    """
    newest = (9999, 0)
    recorded = version or newest
    since = version_of(setting.since or "") or (0, 0)
    until = version_of(setting.until or "") or (newest[0] + 1, 0)
    of_place = {"sql": sql, "rdd": not sql, "cluster": not local, "local": local}
    return since <= recorded < until and (setting.only is None or of_place[setting.only])


def filled(text: str, host: str) -> str:
    """Text with the host's name in its place; nothing else in it is touched."""
    return text.replace(HOST, host)
