"""Kinds of advice: the causes and topics each addresses, and settings of Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal

import msgspec

from iqcar.rules.vocabulary.data_files import broken, read_vocabulary
from iqcar.rules.vocabulary.topics import straggler_causes, topic_vocabulary

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
