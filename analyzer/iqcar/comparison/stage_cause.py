"""Tells the kind and the cause of one category's change by rule, in the order of the evidence.

Partitions or plan, then data, skew, and memory; then what slowed all stages in the same way; then
the part of the time that grew most: a wait whose source is named is contention, the rest is rate.
Each rule looks at an accounted amount, not at what a classifier separates. Every property that
differs is listed; only one whose symptom fits what was seen is blamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
import pandas as pd
import re2

from iqcar.base.units import duration, signed, size
from iqcar.comparison.blame_change import SharedCause
from iqcar.comparison.match import LEAST_DATA_RATIO, Matched, SideMeans
from iqcar.comparison.sides import Side, SideFacts
from iqcar.enums import REQUESTS, BlameKind, ChangeKind, Resource
from iqcar.model.waits.columns import wait_column
from iqcar.model.waits.stage_parts import PART_NAMES
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


LEAST_PARTITIONS_RATIO = 1.1
"""Ratio of numbers of partitions from which they differ."""
LEAST_SKEW_RATIO = 1.3
"""Ratio of (most data of a task over the mean) from which data is more uneven."""
LEAST_SPILL = 0.05
"""Growth of spilled bytes, as a share of the bytes read, from which memory is the cause."""
LEAST_BLAME = 0.2
"""Growth of the blame of named sources over that of the lost time, from which they are the cause:
below, most of the wait is the query's own or nobody's."""
BEFORE_LAUNCH = ("slots_ms", "executors_ms")
FOLLOWS = ("tail_ms", "rest_ms")
"""Parts that grow where another one does."""

PART_RESOURCE: dict[str, Resource] = {
    "slots_ms": Resource.SLOTS,
    "executors_ms": Resource.EXECUTORS,
    **{wait_column(r): r.resource for r in REQUESTS if wait_column(r) in PART_NAMES},
}

PART_SYMPTOM: dict[str, Symptom] = {
    "compute_ms": Symptom.CPU,
    "gc_ms": Symptom.MEMORY,
    "slots_ms": Symptom.SLOTS,
    "executors_ms": Symptom.SLOTS,
    **{
        part: {Resource.IO: Symptom.IO, Resource.NETWORK: Symptom.NETWORK}[resource]
        for part, resource in PART_RESOURCE.items()
        if resource in (Resource.IO, Resource.NETWORK)
    },
}


class StageCause(NamedTuple):
    """Kind and cause of a category's change."""

    kind: ChangeKind
    cause: str
    """``kind:name``, as in ``CHANGE_CAUSES``; of contention, the source that grew most."""
    sentence: str
    symptom: Symptom | None = None
    """What a setting would have to change to be the reason."""
    sources: tuple[tuple[int, float], ...] = ()
    """Of contention: categories of the sources, and their shares of what they explain."""
    part_ms: float = np.inf
    """By how much its part of the stage's time changed, with what follows: it claims no more."""

    def claim(self, ms: float) -> float:
        """Return the part of some ms that it may claim."""
        return float(np.clip(ms, -self.part_ms, self.part_ms))


class CategoryMeasures(NamedTuple):
    """One category's measures on both sides, and what else is known of it."""

    category: int
    before: dict[str, float]
    after: dict[str, float]
    """Means of the measures of ``CATEGORY_RUNS``."""
    operators: tuple[str, str]
    """Plan operators, or the label."""
    relabelled: bool
    """Whether its labels differ between the sides."""
    evidence: str
    """The tests that it passed, as in ``CHANGES``."""

    @property
    def sign(self) -> float:
        """1 if it got slower, −1 if faster; by its work where its time does not tell."""
        if not self.by_work_only:
            grown = self.after["time_ms"] - self.before["time_ms"]
        elif "cpu" in self.evidence:
            grown = self.log_ratio("cpu_ms")
        elif "bytes" in self.evidence:
            moved = [side["bytes"] + side["spill_bytes"] for side in (self.before, self.after)]
            grown = moved[1] - moved[0]
        else:
            grown = self.log_ratio("bytes_max_over_mean")
        return 1.0 if grown >= 0 else -1.0

    @property
    def by_work_only(self) -> bool:
        """Whether only tests of its work say that it changed."""
        return bool(self.evidence) and "time" not in self.evidence

    @property
    def data_growth(self) -> float:
        """Log growth of the bytes read; of the records where bytes do not show them.

        Spark does not count the bytes of reads that its file system does in threads of its own.
        """
        data = self.log_ratio("bytes")
        return data if abs(data) >= np.log(LEAST_DATA_RATIO) else self.log_ratio("records")

    def log_ratio(self, name: str) -> float:
        """Log of after over before; 0 where one is unknown or 0."""
        before, after = self.before[name], self.after[name]
        return float(np.log(after / before)) if before > 0 and after > 0 else 0.0


def seen(
    category: int,
    sides: tuple[SideMeans, SideMeans],
    operators: tuple[str, str],
    relabelled: bool,
    evidence: str,
) -> CategoryMeasures:
    """Collect the measures of one category."""
    before, after = (
        {name: float(values[category]) for name, values in side.measure.items()} for side in sides
    )
    for measure in (before, after):
        measure["cpu_ms"] += measure.pop("python_cpu_ms")
    return CategoryMeasures(
        category=category, before=before, after=after, operators=operators, relabelled=relabelled,
        evidence=evidence,
    )  # fmt: skip


def stage_causes(
    stage: CategoryMeasures, shared: SharedCause | None, blame: pd.DataFrame | None
) -> list[tuple[StageCause, float]]:
    """Return the causes of the change of a stage with their shares of it, the largest first.

    ``shared``: what slowed nearly all stages. ``blame``: rows of the stage's query.
    """
    by_work = _structure(stage) or _data(stage) or _skew(stage) or _memory(stage)
    if by_work is not None:
        return [(by_work, 1.0)]
    if shared is not None and _is_shared(stage, shared):
        kind = ChangeKind.HOST if shared.cause.startswith("host:") else ChangeKind.ENVIRONMENT
        where = shared.cause.partition(":")[2] if kind is ChangeKind.HOST else "nearly all stages"
        text = f"{part_name(shared.part)} per byte × {shared.ratio:.1f} on {where}"
        return [(StageCause(kind, shared.cause, text, PART_SYMPTOM.get(shared.part)), 1.0)]
    return _by_parts(stage, blame)


def _is_shared(stage: CategoryMeasures, shared: SharedCause) -> bool:
    """Tell whether a stage changed as nearly all did; more waiting is no more computing."""
    computes = stage.by_work_only and "cpu" in stage.evidence
    return (shared.ratio > 1) == (stage.sign > 0) and (shared.part == "compute_ms" or not computes)


def _structure(stage: CategoryMeasures) -> StageCause | None:
    old, new = stage.operators
    if (stage.before["tasks"] > 0) != (stage.after["tasks"] > 0) or stage.relabelled:
        return StageCause(
            ChangeKind.STRUCTURE, f"plan:{old}->{new}", f"{old or 'nothing'} → {new or 'nothing'}",
            Symptom.PLAN,
        )  # fmt: skip
    partitions, data = stage.log_ratio("partitions"), stage.data_growth
    least = np.log(LEAST_PARTITIONS_RATIO)
    # More splits of more data are no other structure.
    if abs(partitions) >= least and abs(partitions - data) >= least:
        before, after = stage.before["partitions"], stage.after["partitions"]
        text = f"{before:.0f} → {after:.0f} partitions"
        return StageCause(ChangeKind.STRUCTURE, "partitions", text, Symptom.PARTITIONS)
    return None


def _data(stage: CategoryMeasures) -> StageCause | None:
    data = stage.data_growth
    if abs(data) < np.log(LEAST_DATA_RATIO) or (data > 0) != (stage.sign > 0):
        return None
    more = "more" if data > 0 else "less"
    if data == stage.log_ratio("bytes"):
        amounts = f"{size(stage.before['bytes'])} → {size(stage.after['bytes'])}"
    else:
        amounts = f"{stage.before['records']:,.0f} → {stage.after['records']:,.0f} records"
    text = f"{amounts}: {more} data"
    return StageCause(ChangeKind.DATA, "data:input_bytes", text, Symptom.DATA)


def _skew(stage: CategoryMeasures) -> StageCause | None:
    skew = stage.log_ratio("bytes_max_over_mean")
    if abs(skew) < np.log(LEAST_SKEW_RATIO) or (skew > 0) != (stage.sign > 0):
        return None
    before, after = (side["bytes_max_over_mean"] for side in (stage.before, stage.after))
    text = f"most data of a task over the mean {before:.1f} → {after:.1f}"
    return StageCause(ChangeKind.SKEW, "skew:input_bytes", text, Symptom.SKEW)


def _memory(stage: CategoryMeasures) -> StageCause | None:
    before, after = stage.before["spill_bytes"], stage.after["spill_bytes"]
    least = LEAST_SPILL * np.nan_to_num(max(stage.before["bytes"], stage.after["bytes"]))
    if abs(after - before) <= least or (after > before) != (stage.sign > 0):
        return None
    text = f"spills {size(before)} → {size(after)}"
    return StageCause(ChangeKind.MEMORY, "metric:spill_bytes", text, Symptom.MEMORY)


def _by_parts(
    stage: CategoryMeasures, blame: pd.DataFrame | None
) -> list[tuple[StageCause, float]]:
    """Divide the change by the parts that grew; a wait, by what its sources explain of it.

    A wait for slots that the query's own tasks hold says nothing: why they take longer is in the
    other parts, and so is the tail.
    """
    sign = stage.sign
    found: list[tuple[StageCause, float]] = []

    def grown(part: str) -> float:
        return sign * (stage.after[part] - stage.before[part])

    if stage.by_work_only and "cpu" in stage.evidence:
        times = f"{duration(stage.before['cpu_ms'])} → {duration(stage.after['cpu_ms'])}"
        cause = _rate("compute_ms", f"CPU time of its tasks {times}")
        return [(cause._replace(part_ms=abs(grown("compute_ms"))), 1.0)]
    follows = sum(max(grown(part), 0.0) for part in FOLLOWS)
    for part in PART_NAMES:
        more = grown(part)
        if part in FOLLOWS or more <= 0:
            continue
        text = f"{part_name(part)} {signed(stage.after[part] - stage.before[part])}"
        if part in PART_RESOURCE:
            sources, named, own = _sources(PART_RESOURCE[part], blame, sign)
            if sources:
                cause = StageCause(ChangeKind.CONTENTION, "", text, None, sources)
                found.append((cause, more * named))
            more *= 1.0 - named - (own if part in BEFORE_LAUNCH else 0.0)
        elif part == "compute_ms":
            cpu_per_data = sign * (stage.log_ratio("cpu_ms") - stage.data_growth)
            if cpu_per_data < np.log(LEAST_DATA_RATIO):
                continue
        if more > 0:
            found.append((_rate(part, text), more))
    if not found:
        cause = StageCause(ChangeKind.RATE, "metric:rest_ms", "nothing that is recorded says why")
        return [(cause, 1.0)]
    whole = sum(weight for _, weight in found)
    found.sort(key=lambda one: -one[1])
    return [
        (cause._replace(part_ms=weight + follows * weight / whole), weight / whole)
        for cause, weight in found
    ]


def _rate(part: str, text: str) -> StageCause:
    """Return the cause of a part that took another time over the same data."""
    cause = "metric:cpu_ms" if part == "compute_ms" else f"metric:{part}"
    return StageCause(ChangeKind.RATE, cause, f"{text}, same data", PART_SYMPTOM.get(part))


def _sources(
    resource: Resource, blame: pd.DataFrame | None, sign: float
) -> tuple[tuple[tuple[int, float], ...], float, float]:
    """Return the sources whose blame changed as the wait did, with their shares of it.

    Also the shares of the change of lost time that they and the query itself explain.
    """
    if blame is None:
        return (), 0.0, 0.0
    rows = blame[(blame["resource"] == resource.value).to_numpy()]
    change = sign * rows["change_ms"].to_numpy(np.float64)
    grew = change > 0
    named = rows["named"].to_numpy(bool) & grew
    total, of_named = float(change[grew].sum()), float(change[named].sum())
    if total <= 0:
        return (), 0.0, 0.0
    own = (rows["kind"].to_numpy(object) == BlameKind.OWN.value) & grew
    own_share = float(change[own].sum()) / total
    if of_named < LEAST_BLAME * total:
        return (), 0.0, own_share
    source = rows["source"].to_numpy(np.int64)
    order = np.flatnonzero(named)[np.argsort(-change[named], kind="stable")]
    shares = tuple((int(source[row]), float(change[row]) / of_named) for row in order)
    return shares, of_named / total, own_share


def part_name(part: str) -> str:
    """Return a part's name in words."""
    return part.removesuffix("_ms").replace("_", " ")
