"""Declares the settings of the search for stragglers, and the tables that it returns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd

from iqcar.enums import CauseEvidence, Kind
from iqcar.errors import UsageError
from iqcar.model.queries.identify import readable_call
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Floats, Ints
from iqcar.tables.declarations import TableSpec, declare

Chosen = TypeVar("Chosen", bound="Thresholds")
WORDS = {int: "a whole number", float: "a number", bool: "true or false"}
"""What an error calls the values of a type."""


@dataclass(frozen=True)
class Thresholds:
    """Base of settings: fields with defaults, of type int, float, bool or a kind of the package."""

    BOUNDS: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Least and largest value of each number."""

    def __post_init__(self) -> None:
        """Check the bounds; raises UsageError."""
        for name, (low, high) in self.BOUNDS.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise UsageError(f"{value} is not from {low} to {high:g}", f"settings: {name}")

    @classmethod
    def parse(cls: type[Chosen], text: str, start: Chosen | None = None) -> Chosen:
        """Read ``name=value,name=value``.

        Raises UsageError if a name is unknown or a value does not fit it.

        start: values of the settings that the text does not name; the defaults if left out.
        """
        found = start or cls()
        types = {field.name: type(field.default) for field in fields(cls)}
        for part, name, value in named_values(text):
            if name not in types or value is None:
                raise UsageError(
                    f"{part!r} is no setting", "--settings", f"use NAME=VALUE of {', '.join(types)}"
                )
            found = replace(found, **{name: _value(name, value, types[name])})
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as numbers, booleans and strings."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {n: str(value) if isinstance(value, Kind) else value for n, value in values.items()}


def named_values(text: str) -> Iterator[tuple[str, str, str | None]]:
    """Split ``name=value,name=value``: each part, its name, and its value (None without ``=``)."""
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        yield part, name, value if sign else None


def _value(name: str, text: str, kind: type) -> Any:
    try:
        return {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (KeyError, ValueError):
        words = f"one of {', '.join(kind)}" if issubclass(kind, Kind) else WORDS[kind]
        raise UsageError(f"{text!r} is not {words}", f"settings: {name}") from None


@dataclass(frozen=True)
class StragglerSettings(Thresholds):
    """What counts as a straggler, and what as its cause (BigRoots §III).

    The paper prints 1.5, 0.2 and the two categories of peers. It tunes λq, λp, λe and the edge
    width by experiment and prints none of them; ours were chosen on stages with planted causes.
    """

    straggler: float = 1.5
    """A straggler took more than this times the stage's median duration (§II-A, from Mantri)."""
    quantile: float = 0.8
    """λq: a cause lies above this quantile of its stage (eq. 5). A fifth of a stage's tasks may
    share a cause, as many as one slow host of five runs."""
    ratio: float = 1.5
    """λp: a cause is more than this times its peers' mean (eq. 5); what is not as far off as the
    duration does not explain it."""
    edge: float = 0.5
    """λe: use of the host that was not at least this share of itself right before or right after
    the task was the task's own (eq. 6, read as its text says: drop it if both edges are low); 0 is
    no edge detection."""
    edge_ms: float = 3000.0
    """Width of the windows before and after the task: three samples of a second."""
    floor: float = 0.2
    """A time counts from this share of the task's duration on (§III-B)."""
    explains: float = 0.25
    """A measured wait counts if it explains this share of the straggler's time over the median:
    with less, at least three quarters of the delay had another cause."""
    least_tasks: int = 4
    """Stages of fewer tasks have no stragglers: their median is one of the tasks compared."""
    least_peers: int = 2
    """Fewer peers than this have no mean to be compared with."""
    worth: bool = True
    """Whether an amount counts only if it can matter (:mod:`~iqcar.causes.stragglers.root_causes`);
    the paper has a floor for times only."""
    shared: bool = True
    """Whether what the tasks of a host or executor share is compared with tasks elsewhere only,
    and not with the stage's quantile: where half of a stage ran on it, the quantile hides what its
    tasks have in common (garbage collection, say)."""
    slow_hosts: bool = True
    """Whether a straggler that nothing explains is put down to its host where the stage's other
    tasks there were slow too."""
    evidence: CauseEvidence = CauseEvidence.AUTO
    """What decides whether a resource delayed a straggler."""

    BOUNDS: ClassVar[Mapping[str, tuple[float, float]]] = {
        "straggler": (1, 1e6), "quantile": (0, 1), "ratio": (1, 1e6), "edge": (0, 1e6),
        "edge_ms": (1, 1e9), "floor": (0, 1), "explains": (0, 1), "least_tasks": (2, 1e9),
        "least_peers": (1, 1e9),
    }  # fmt: skip


INTER, INTRA, BOTH, ELSEWHERE, EXECUTORS = range(5)
"""Peers that a feature stood out from: those on other hosts, on the same host, both; those on
other hosts while the others on its host were like it; and those on other executors while the others
on its executor were like it."""


@dataclass(frozen=True)
class Marks:
    """One entry per straggler and feature that is a cause of it.

    task: (m,) position among the compared tasks.
    feature: (m,) position among the features; −1 for a slow host.
    value: the feature as rules compare it: an amount, a share, ms waited.
    peer_mean: mean of the peers it stood out from; what was to be expected for a wait.
    quantile: quantile of the stage that it was above; NaN where no rule asks.
    ratio: value / peer_mean; inf over 0 and next to it, NaN where no rule asks.
    peers: `INTER`, `INTRA`, `BOTH`, `ELSEWHERE` or `EXECUTORS`.
    explained: share of the straggler's time over the median; NaN unless measured.
    """

    task: Ints
    feature: Ints
    value: Floats
    peer_mean: Floats
    quantile: Floats
    ratio: Floats
    peers: Ints
    explained: Floats

    @classmethod
    def make(
        cls, task: Ints, feature: int, value: Floats, peer_mean: Floats, **more: object
    ) -> Marks:
        """Make the marks of one feature; what is not given is unknown."""
        n = len(task)
        unknown = np.full(n, np.nan)
        columns = {"quantile": unknown, "ratio": unknown, "explained": unknown}
        columns["peers"] = np.full(n, BOTH)
        return cls(
            task=task, feature=np.full(n, feature), value=value, peer_mean=peer_mean,
            **{**columns, **more},  # type: ignore[arg-type]
        )  # fmt: skip

    def kept(self, which: Flags) -> Marks:
        """Return some of the marks."""
        return Marks(**{f.name: getattr(self, f.name)[which] for f in fields(self)})

    @classmethod
    def join(cls, parts: Sequence[Marks]) -> Marks:
        """Put marks together, ordered by task and feature."""
        if not parts:
            parts = [cls.make(np.zeros(0, np.int64), 0, np.zeros(0), np.zeros(0))]
        columns = {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)}
        order = np.lexsort((columns["feature"], columns["task"]))
        return cls(**{name: values[order] for name, values in columns.items()})


@dataclass(frozen=True)
class Labels:
    """Names by row number, which is −1 for something unknown.

    tasks: sequence of str, or None where a task is called by its ``task_id``.
    """

    apps: Sequence[str]
    stages: Sequence[str]
    queries: Sequence[str]
    query_ids: Sequence[str]
    hosts: Sequence[str]
    tasks: Sequence[str] | None = None

    def app(self, row: int) -> str:
        """Name of an application."""
        return _at(self.apps, row)

    def stage(self, row: int) -> str:
        """Name of a stage attempt, or of a trace's job."""
        return _at(self.stages, row)

    def query(self, row: int) -> str:
        """Name of a query."""
        return _at(self.queries, row)

    def query_id(self, row: int) -> str:
        """Id of a query."""
        return _at(self.query_ids, row)

    def host(self, row: int) -> str:
        """Name of a host."""
        return _at(self.hosts, row)

    def task(self, row: int, task_id: int) -> str:
        """Name of a task."""
        return str(task_id) if self.tasks is None else _at(self.tasks, row)


def _at(names: Sequence[str], row: int) -> str:
    return names[row] if 0 <= row < len(names) else ""


def labels_of(tables: Tables) -> Labels:
    """Take the names from the tables of event logs; a stage is called by id, attempt and name."""
    stages = tables.stages
    numbers = zip(
        stages["stage_id"].tolist(), stages["attempt"].tolist(), texts(stages, "name"), strict=True
    )
    return Labels(
        apps=texts(tables.applications, "application_id"),
        stages=[
            f"{number}.{attempt} {readable_call(name)}".rstrip()
            for number, attempt, name in numbers
        ],
        queries=texts(tables.queries, "name"),
        query_ids=texts(tables.queries, "query_id"),
        hosts=texts(tables.hosts, "host"),
    )


STRAGGLERS = TableSpec(
    "stragglers",
    "One row per task that took more than 1.5 times its stage's median, the most delayed first.",
    declare(
        ("task", "int32", "row", "The task."),
        ("task_id", "int64", "", "Its id in Spark."),
        ("app", "int32", "row", "Its application."),
        ("stage", "int32", "row", "Its stage attempt."),
        ("query", "int32", "row", "Its query; −1 if none."),
        ("host", "int32", "row", "The machine it ran on; −1 if unknown."),
        ("launch_ms", "float64", "ms", "When it was launched."),
        ("duration_ms", "float64", "ms", "Launch to finish."),
        ("median_ms", "float64", "ms", "Median duration in its stage."),
        ("delay_ms", "float64", "ms", "Its duration less the median."),
        ("run_ms", "float64", "ms", "Time its code ran."),
        ("cpu_ms", "float64", "ms", "CPU time of its code; NaN if not recorded."),
        ("causes", "int32", "count", "Causes found; 0 if nothing explains it."),
        ("recorded", "bool", "", "Whether the plugin recorded tasks of its application."),
    ),
)

STRAGGLER_CAUSES = TableSpec(
    "straggler_causes",
    "One row per straggler and cause, with the evidence.",
    declare(
        ("straggler", "int32", "row", "The straggler."),
        ("cause", "str", "", "Key of the cause in rules/causes.json."),
        ("feature", "str", "", "The feature that says so; of several the first one."),
        ("unit", "str", "", "Unit of `value`, `peer_mean` and `quantile`."),
        ("value", "float64", "as `unit`", "The straggler's; a share of its duration for times."),
        ("peer_mean", "float64", "as `unit`", "Mean of its peers; for a wait what was to expect."),
        ("quantile", "float64", "as `unit`", "The stage's quantile that it is above."),
        ("ratio", "float64", "", "Value over mean; inf if the peers had none, NaN for a state."),
        ("peers", "str", "", "Tasks of its stage elsewhere, on its own host, or either."),
        ("explained", "float64", "", "Share of the delay that a measured wait explains."),
        ("evidence", "str", "", "measured, if by the task's own measured wait; else paper."),
        ("sentence", "str", "", "The same in words."),
    ),
)

STRAGGLER_SOURCES = TableSpec(
    "straggler_sources",
    "One row per cause that is a resource of a host, and who iQCAR blames for it there and then.",
    declare(
        ("cause", "int32", "row", "The cause."),
        ("kind", "str", "", "query, own, known or unattributed."),
        ("query", "int32", "row", "The query blamed; −1 for the last two kinds."),
        ("share", "float64", "", "Its part; the shares of one cause sum to 1."),
    ),
)

PEERS = ("on other hosts", "on its host", "in its stage", "on other hosts", "on other executors")
"""Peers in words, by their code in :class:`iqcar.causes.stragglers.straggler_result.Marks`."""


@dataclass(frozen=True)
class Stragglers:
    """Stragglers with their causes.

    stragglers: frame of `STRAGGLERS`.
    causes: frame of `STRAGGLER_CAUSES`; rows of one straggler follow one another: what measured
        waits explain first, the most first; then in the order of the features.
    sources: frame of `STRAGGLER_SOURCES`.
    compared_stages: stage, app, query, tasks: every stage that was looked at, and how many tasks of
        it.
    compared_hosts: host, app, tasks: how many of these tasks each host ran.
    """

    stragglers: pd.DataFrame
    causes: pd.DataFrame
    sources: pd.DataFrame
    compared_stages: pd.DataFrame
    compared_hosts: pd.DataFrame
    labels: Labels
    settings: StragglerSettings
    doubts: tuple[str, ...]

    def recorded(self, cause: str) -> bool:
        """Whether the plugin recorded the application of every straggler with a cause."""
        mine = self.causes.loc[(self.causes["cause"] == cause).to_numpy(bool), "straggler"]
        return bool(self.stragglers["recorded"].iloc[mine.to_numpy()].all())

    @property
    def tasks(self) -> int:
        """How many tasks were compared."""
        return int(self.compared_stages["tasks"].sum())

    def __repr__(self) -> str:
        """Count them."""
        explained = int((self.stragglers["causes"] > 0).sum())
        return (
            f"<Stragglers: {len(self.stragglers)} of {self.tasks} tasks, causes found "
            f"for {explained}>"
        )


UNEXPLAINED = ""
"""In place of a cause's key, for stragglers that nothing explains."""


def by_cause(found: Stragglers, app: int | None = None) -> pd.DataFrame:
    """Count the stragglers of each cause, and those that nothing explains.

    cause, stragglers, delay_ms, worst (row of the most delayed straggler of the cause); the largest
    delay first, what is unexplained last. A straggler with two causes counts in both.
    """
    stragglers, causes = _of(found, app)
    delay = stragglers["delay_ms"]
    per = pd.DataFrame(
        {
            "cause": causes["cause"],
            "worst": causes["straggler"],
            "delay_ms": delay.reindex(causes["straggler"]).to_numpy(np.float64),
        }
    )
    frame = per.groupby("cause").agg(
        stragglers=("worst", "size"), delay_ms=("delay_ms", "sum"), worst=("worst", "min")
    )
    frame = frame.reset_index().sort_values(["delay_ms", "cause"], ascending=[False, True])
    alone = stragglers[stragglers["causes"] == 0]
    if len(alone):
        rest = {
            "cause": [UNEXPLAINED], "stragglers": [len(alone)],
            "delay_ms": [float(alone["delay_ms"].sum())], "worst": [int(alone.index.min())],
        }  # fmt: skip
        rest_frame = pd.DataFrame(rest)
        frame = pd.concat([frame, rest_frame], ignore_index=True) if len(frame) else rest_frame
    return frame.reset_index(drop=True)


def by_group(found: Stragglers, name: str, app: int | None = None) -> pd.DataFrame:
    """Count stragglers by stage, query, host or app.

    The group's row, tasks, stragglers, delay_ms, causes (dict of cause to stragglers, the most
    frequent first); only groups with stragglers, the largest delay first.
    """
    stragglers, causes = _of(found, app)
    counted = found.compared_hosts if name == "host" else found.compared_stages
    if app is not None:
        counted = counted[counted["app"] == app]
    tasks = counted.groupby(name)["tasks"].sum()
    groups = stragglers.groupby(name)["delay_ms"].agg(stragglers="size", delay_ms="sum")
    groups = groups.reset_index().sort_values(["delay_ms", name], ascending=[False, True])
    groups.insert(1, "tasks", tasks.reindex(groups[name]).to_numpy(np.int64))
    where = stragglers[name].reindex(causes["straggler"]).to_numpy()
    pairs = pd.DataFrame({name: where, "cause": causes["cause"].to_numpy()})
    counts = pairs.groupby([name, "cause"]).size().reset_index(name="n")
    counts = counts.sort_values(["n", "cause"], ascending=[False, True])
    split: dict[int, dict[str, int]] = {int(row): {} for row in groups[name]}
    for row, cause, n in counts.itertuples(index=False):
        split[int(row)][str(cause)] = int(n)
    groups["causes"] = [split[int(row)] for row in groups[name]]
    return groups.reset_index(drop=True)


def _of(found: Stragglers, app: int | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Stragglers and causes of one application, or of all; rows keep their numbers."""
    if app is None:
        return found.stragglers, found.causes
    of_app = found.stragglers[found.stragglers["app"] == app]
    return of_app, found.causes[found.causes["straggler"].isin(of_app.index)]
