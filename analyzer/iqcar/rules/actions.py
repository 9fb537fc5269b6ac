"""Says what can be done against what was found, where the application ran: ``actions.json``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from string import Template
from typing import NamedTuple

import msgspec

from iqcar.base.units import read_size
from iqcar.rules.advice_rules import manager_kind
from iqcar.rules.vocabulary import read_vocabulary, version_of
from iqcar.tables import NONE, Tables, texts

ACTIONS = "actions.json"
"""Kinds of finding: for each what to do, the first choice whose conditions hold."""
_NOT = "!"


class ActionSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One setting: what to set it to and why, for which versions of Spark, and when."""

    name: str
    value: str
    why: str
    since: str = ""
    until: str = ""
    when: tuple[str, ...] = ()


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do where all conditions hold; ``!`` before a name means that it does not."""

    when: tuple[str, ...]
    do: str
    settings: tuple[ActionSetting, ...] = ()


class Choices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be done against one kind of finding; the last choice holds everywhere."""

    choices: tuple[Choice, ...]


@cache
def actions() -> Mapping[str, Choices]:
    """What to do, by kind of finding."""
    return read_vocabulary(ACTIONS, "actions", Choices)


class Remedy(NamedTuple):
    """What to do: a sentence or two, and settings by name, value and why."""

    do: str
    settings: tuple[tuple[str, str, str], ...] = ()


_PYTHON = re.compile(r"\.py:\d|NativeMethodAccessorImpl|<stdin>")
"""In names of stages of PySpark."""
_MASTERS = {"executors-yarn": "yarn", "executors-kubernetes": "kubernetes"}
_STANDALONE = ("spark://", "local-cluster")


class Site:
    """Where an application ran.

    settings: its Spark properties
    version: major and minor of its Spark; None if unknown
    holds: conditions of the place that hold: local, standalone, yarn, kubernetes, databricks,
        dynamic, adaptive, gpu, python, waits, recorded, small-first
    """

    def __init__(self, tables: Tables, app: int) -> None:
        conf = tables.conf
        mine = (conf["app"] == app).to_numpy(bool) & (conf["sql_execution"] == NONE).to_numpy(bool)
        rows = conf[mine]
        self.settings = dict(zip(texts(rows, "key"), texts(rows, "value"), strict=True))
        self.version = version_of(texts(tables.applications, "spark_version")[app])
        self.holds = frozenset(self._conditions(tables, app))

    def _conditions(self, tables: Tables, app: int) -> set[str]:
        of, held = self.settings, set()
        mine = (tables.stages["app"] == app).to_numpy(bool)
        master = texts(tables.applications, "master")[app]
        ids = tables.executors["executor_id"][(tables.executors["app"] == app).to_numpy(bool)]
        local = master.startswith("local") and not master.startswith("local-cluster")
        if local or (not master and set(ids.astype(str)) == {"driver"}):
            held.add("local")
        elif any(key.startswith("spark.databricks.") for key in of):
            held.add("databricks")
        else:
            held.add(_MASTERS.get(manager_kind(tables, app), ""))
            held |= {"standalone"} if master.startswith(_STANDALONE) else set()
        if self.is_on("spark.dynamicAllocation.enabled"):
            held.add("dynamic")
        if self.is_on("spark.sql.adaptive.enabled", (self.version or (9, 0)) >= (3, 2)):
            held.add("adaptive")
        plugins = of.get("spark.plugins", "").lower()
        if "nvidia" in plugins or "rapids" in plugins:
            held.add("gpu")
        if any(_PYTHON.search(name) for name in texts(tables.stages[mine], "name")):
            held.add("python")
        if (read_size(of.get("spark.locality.wait", "3").rstrip("ms")) or 0) > 0:
            held.add("waits")
        if not self.is_on("spark.sql.adaptive.coalescePartitions.parallelismFirst", True):
            held.add("small-first")
        return held - {""}

    def is_on(self, name: str, default: bool = False) -> bool:
        """Whether a setting is true."""
        return self.settings.get(name, str(default)).strip().lower() == "true"

    def action(
        self, kind: str, holds: Collection[str] = (), values: Mapping[str, object] | None = None
    ) -> Remedy:
        """Say what to do here.

        kind: of the finding
        holds: what else holds
        values: what stands for ``$name`` in texts
        """
        held = self.holds | set(holds)
        choice = next(one for one in actions()[kind].choices if _all_hold(one.when, held))
        given = {name: str(value) for name, value in (values or {}).items()}

        def filled(text: str) -> str:
            return Template(text).safe_substitute(given)

        settings = (
            (one.name, filled(one.value), filled(one.why))
            for one in choice.settings
            if self._has(one) and _all_hold(one.when, held)
        )
        return Remedy(
            filled(choice.do), tuple(one for one in settings if not self.is_set(one[0], one[1]))
        )

    def _has(self, setting: ActionSetting) -> bool:
        since, until = version_of(setting.since), version_of(setting.until)
        mine = self.version or (9999, 0)
        return (since is None or mine >= since) and (until is None or mine < until)

    def is_set(self, name: str, value: str) -> bool:
        """Whether a setting has a value already, however it is written."""
        was = self.settings.get(name)
        if was is None:
            return False
        sizes = read_size(was), read_size(value)
        same_size = sizes[0] is not None and sizes[0] == sizes[1]
        return was.strip().lower() == value.strip().lower() or same_size


def _all_hold(when: Collection[str], held: Collection[str]) -> bool:
    return all(
        one[len(_NOT) :] not in held if one.startswith(_NOT) else one in held for one in when
    )
