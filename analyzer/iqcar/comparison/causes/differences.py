"""Finds Spark properties that differ between two sides, and those whose symptom fits a change.

Everything that differs is listed; only a property that can cause what was seen is blamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import re2

from iqcar.comparison.match.match import Matched
from iqcar.comparison.sides.side import Side, SideFacts
from iqcar.enums import ChangeKind
from iqcar.tables import texts


class Symptom(Enum):
    """What a property can change."""

    PARTITIONS = "partitions"
    PLAN = "plan"
    DATA = "data"
    SKEW = "skew"
    MEMORY = "memory"
    SLOTS = "slots"
    CPU = "cpu"
    IO = "io"
    NETWORK = "network"


_FITS: tuple[tuple[Symptom, str], ...] = (
    (
        Symptom.PARTITIONS,
        r"spark\.(sql\.shuffle\.partitions|default\.parallelism|sql\.adaptive\.(enabled|coalesce.*"
        r"|advisory.*|shuffle.*|rebalance.*)|sql\.files\.(maxPartition|minPartition|openCost).*"
        r"|sql\.sources\.bucketing.*)",
    ),
    (
        Symptom.PLAN,
        r"spark\.sql\.(.*[bB]roadcastJoin.*|join\..*|adaptive\..*|cbo\..*|optimizer\..*"
        r"|statistics\..*|codegen\..*|execution\..*|sources\..*|hive\.convert.*|ansi.*|exchange.*)",
    ),
    (
        Symptom.DATA,
        r"spark\.(sql\.(parquet|orc|inMemoryColumnar|files|optimizer\.dynamicPartition.*)\..*"
        r"|io\.compression.*|shuffle\..*compress|rdd\.compress|serializer|sql\.hive\..*)",
    ),
    (Symptom.SKEW, r"spark\.sql\.adaptive\.(enabled|skewJoin.*|optimizeSkew.*|forceOptimize.*)"),
    (
        Symptom.MEMORY,
        r"spark\.(executor\.(memory|cores|pyspark\.memory|extraJavaOptions).*|memory\..*"
        r"|driver\.(memory|extraJavaOptions)"
        r"|executor\.defaultJavaOptions|shuffle\.spill.*|sql\..*(spill|Spill).*"
        r"|sql\.shuffle\.partitions|sql\.execution\.sortMergeJoin.*|task\.cpus)",
    ),
    (
        Symptom.SLOTS,
        r"spark\.(executor\.(instances|cores)|cores\.max|dynamicAllocation\..*|task\..*"
        r"|scheduler\..*|locality\..*|kubernetes\..*(limit|request).*|yarn\.queue|speculation.*)",
    ),
    (
        Symptom.CPU,
        r"spark\.(serializer|kryo.*|io\.compression.*|sql\.(codegen|parquet|orc|ansi|execution)\..*"
        r"|executor\.(extra|default)JavaOptions|executorEnv\..*|io\.encryption.*|plugins"
        r"|extraListeners|python\..*|shuffle\..*compress)",
    ),
    (
        Symptom.IO,
        r"spark\.(local\.dir|shuffle\..*|io\.compression.*|hadoop\.fs\..*|sql\.(files|parquet|orc)"
        r"\..*|io\.encryption.*|hadoop\.mapreduce\..*)",
    ),
    (Symptom.NETWORK, r"spark\.(reducer\..*|shuffle\..*|network\..*|authenticate.*|ssl\..*)"),
)

_OF_THE_RUN = re2.compile(
    r"spark\.(app\.(id|name|startTime|submitTime|attempt.*|initial.*)|driver\.(host|port"
    r"|appUIAddress|blockManager\.port)|executor\.id|ui\..*|.*\.port|eventLog\..*|yarn\.(app\..*"
    r"|jars|dist.*|historyServer.*|am\..*|secondary.*)|org\.apache\.hadoop\.yarn\..*|repl\..*"
    r"|jars|files|submit\.pyFiles|kubernetes\.(driver\.pod.*|.*podName.*|submission.*|.*\.uid)"
    r"|sql\.(catalogImplementation|warehouse\.dir)|home|master|externalBlockStore\..*|hadoop\.yarn"
    r"\..*|driver\.(pod|container).*)"
)
"""Properties that name a run, a place or an address: they differ between equal runs."""

_CHANGING = re2.compile(
    r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|app(lication)?[-_]\d+[-_]\d+"
    r"|\d{4}[-/_]?\d{2}[-/_]?\d{2}([T_ -]?\d{2}[:_-]?\d{2}([:_-]?\d{2})?)?|\b[0-9a-f]{16,}\b"
)
"""Dates and ids in values."""


class SettingDifference(NamedTuple):
    """A property with other values on one side than on the other."""

    key: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    """Its values; empty where no application has it."""

    def fits(self, symptoms: Iterable[Symptom]) -> bool:
        """Return whether the property can change one of these."""
        wanted = set(symptoms)
        return any(
            symptom in wanted and re2.fullmatch(pattern, self.key) for symptom, pattern in _FITS
        )

    def __str__(self) -> str:
        """Name the property and both values: ``spark.executor.memory 12g → 4g``."""
        return f"{self.key} {_shown(self.before)} → {_shown(self.after)}"


def setting_differences(
    before: Mapping[str, Sequence[str]], after: Mapping[str, Sequence[str]]
) -> tuple[SettingDifference, ...]:
    """Return the properties whose sets of values differ, by key.

    ``before`` and ``after``: values of each property over the applications of a side. Leaves out
    properties that name a run, and values that differ in dates and ids only.
    """
    found = []
    for key in sorted({*before, *after}):
        values = tuple(before.get(key, ())), tuple(after.get(key, ()))
        if _OF_THE_RUN.fullmatch(key):
            continue
        plain = [{_CHANGING.sub("", value) for value in side} for side in values]
        if plain[0] != plain[1]:
            found.append(SettingDifference(key, *values))
    return tuple(found)


def _shown(values: Sequence[str]) -> str:
    return ", ".join(value or '""' for value in values) or "not set"


OF_THE_VERSION = (
    ChangeKind.STRUCTURE,
    ChangeKind.RATE,
    ChangeKind.MEMORY,
    ChangeKind.ENVIRONMENT,
)
"""Kinds of change that another version of Spark can be the reason of."""


class Differences(NamedTuple):
    """What differs between the sides besides the queries; nothing here is a cause by itself."""

    settings: tuple[SettingDifference, ...] = ()
    hosts: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Hosts only before, and only after."""
    versions: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """Spark versions before and after where they differ."""
    local: bool = False
    """Whether tasks run in the driver, on both sides."""

    def fitting(self, kind: ChangeKind, symptom: Symptom | None) -> list[tuple[str, str]]:
        """Return causes, with sentences, among the settings and versions that differ.

        Settings of a driver are none where tasks run in executors, and the other way round.
        """
        elsewhere = "spark.executor." if self.local else "spark.driver."
        found = [
            (f"conf:{one.key}", str(one))
            for one in self.settings
            if symptom is not None and one.fits((symptom,)) and not one.key.startswith(elsewhere)
        ]
        if self.versions is not None and kind in OF_THE_VERSION:
            before, after = (", ".join(side) for side in self.versions)
            found.append((f"version:{before}->{after}", f"Spark {before} → {after}"))
        return found


def find_differences(before: SideFacts, after: SideFacts) -> Differences:
    """Compare settings, hosts and versions of two sides."""
    masters = [value for side in (before, after) for value in side.settings.get("spark.master", ())]
    return Differences(
        settings=setting_differences(before.settings, after.settings),
        hosts=(
            tuple(sorted(set(before.hosts) - set(after.hosts))),
            tuple(sorted(set(after.hosts) - set(before.hosts))),
        ),
        versions=(before.versions, after.versions) if before.versions != after.versions else None,
        local=bool(masters) and all(master.startswith("local") for master in masters),
    )


def own_differences(
    sides: tuple[Side, Side],
    matched: Matched,
    shared: Iterable[SettingDifference],
) -> dict[int, tuple[SettingDifference, ...]]:
    """Return what differs for each query of which a session changed a setting on either side.

    By category of the query. ``shared``: what differs between the applications; that stands where
    no session changed it.
    """
    values: tuple[dict[int, dict[str, set[str]]], ...] = ({}, {})
    for side, categories, found in zip(sides, matched.category_of, values, strict=True):
        frame = side.settings
        columns = frame["node"].tolist(), texts(frame, "key"), texts(frame, "value")
        for node, key, value in zip(*columns, strict=True):
            found.setdefault(int(categories[node]), {}).setdefault(key, set()).add(value)
    differs = {}
    for category in sorted({*values[0], *values[1]}):
        keys = sorted({*values[0].get(category, ()), *values[1].get(category, ())})
        before, after = (
            {
                key: sorted(found.get(category, {}).get(key, side.facts.settings.get(key, ())))
                for key in keys
            }
            for side, found in zip(sides, values, strict=True)
        )
        others = (one for one in shared if one.key not in before)
        differs[category] = (*setting_differences(before, after), *others)
    return differs
