"""Reads plans of experiments: queries, resources, levels, repeats, budget, and hosts for hogs."""

from __future__ import annotations

import math
import re
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from iqcar.base.units import parse_time
from iqcar.comparison.shrunken_t import t_quantile
from iqcar.errors import UsageError
from iqcar.logs.text import redact_setting
from iqcar.show.json.described import schema_text
from iqcar.tables.arrays import Floats
from iqcar_lab.inject.anomalies import (
    BLOCK_BYTES,
    LONGEST_S,
    STEP_BYTES,
    Anomaly,
    AnomalySettings,
    CpuSettings,
    IoSettings,
    MemorySettings,
    NetworkSettings,
)
from iqcar_lab.inject.plan import check_host, settings_of

ANOMALY = {
    "cpu": Anomaly.CPU,
    "disk": Anomaly.IO,
    "network": Anomaly.NETWORK,
    "memory": Anomaly.MEMORY,
}
"""Resources as ``iqcar whatif`` names them, and what is injected to load each."""
MOST_TEXT = 100_000
"""Characters of a text of the plan that its results hold."""
MOST_BYTES = 1 << 20
THIS_HOST = ("localhost", "127.0.0.1", "::1")
_LOOPBACK = re.compile(r"127\.\d{1,3}\.\d{1,3}\.\d{1,3}")


class PlannedQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One query: ``sql``, or a ``file`` with SQL, or a ``command`` that runs it."""

    name: Annotated[str, Meta(description="Unique; curves of queries carry it.", min_length=1)]
    sql: Annotated[str, Meta(description="SQL text, run with the noop sink.")] = ""
    file: Annotated[str, Meta(description="A file with SQL, from the working directory.")] = ""
    command: Annotated[
        tuple[str, ...],
        Meta(description="Words that run it; all their time counts, exit code 0 is success."),
    ] = ()


ONE_WAY = Meta(extra_json_schema={"oneOf": [{"required": [w]} for w in ("sql", "file", "command")]})
HOGS = Meta(
    description="What to load (cpu, disk, network, memory), with the settings of its hogs at "
    "level 1, as `iqcar-lab inject` has them; {} for its defaults.",
    min_length=1,
    extra_json_schema={"propertyNames": {"enum": list(ANOMALY)}},
)
HOSTS = Meta(description="Names or loopback addresses of this machine, on which hogs may run.")
SOME = Meta(min_length=1, max_length=1000)


class ExperimentPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `iqcar-lab experiment` takes: a plan."""

    queries: Annotated[list[Annotated[PlannedQuery, ONE_WAY]], SOME]
    resources: Annotated[dict[str, dict[str, Any]], HOGS]
    hosts: Annotated[list[str], SOME, HOSTS]
    budget: Annotated[
        str, Meta(description="No pair starts later after Spark is up: 90s, 20m, 1h.")
    ]
    master: Annotated[str, Meta(description="Spark master; needed for SQL.")] = ""
    conf: Annotated[dict[str, str], Meta(description="Spark settings.")] = {}
    setup: Annotated[list[str], Meta(description="SQL run once before all queries.")] = []
    levels: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=1)], ...],
        Meta(
            description="Shares of the hogs' settings. 0, the query alone, is in every pair.",
            min_length=1,
            max_length=20,
        ),
    ] = (0.0, 0.25, 0.5, 1.0)
    repeats: Annotated[int, Meta(description="Pairs of runs of each cell.", ge=1, le=100)] = 3
    warm_up: Annotated[
        int, Meta(description="Runs of each query before any is measured.", ge=0, le=100)
    ] = 1
    longest_run: Annotated[str, Meta(description="A run that takes longer has failed.")] = "10m"
    plugin: Annotated[bool, Meta(description="Whether the plugin measures waits.")] = True


def experiment_schema() -> str:
    """Return the JSON Schema of a plan, as text."""
    return schema_text(
        ExperimentPlan,
        title="Plan of iqcar-lab experiment",
        identity="https://iqcar.org/experiment.schema.json",
    )


@dataclass(frozen=True)
class LoadedPlan:
    """What is to be run; as in the file (``iqcar-lab schema experiment``), checked.

    queries: each with SQL or a command; files are read.
    strengths: settings of the hogs at level 1 by resource.
    levels: shares of these settings, above 0 and at most 1, rising. Level 0 is in every pair.
    as_given: the file's content without secrets.
    hosts: names of this machine, as the plan has them.
    """

    queries: tuple[PlannedQuery, ...]
    strengths: dict[str, AnomalySettings]
    levels: tuple[float, ...]
    repeats: int
    warm_up: int
    budget_s: float
    longest_run_s: float
    hosts: tuple[str, ...]
    master: str
    conf: dict[str, str]
    setup: tuple[str, ...]
    plugin: bool
    as_given: dict[str, Any]

    @property
    def loaded_hosts(self) -> set[str]:
        """All names of the host under hogs."""
        return {*self.hosts, *own_names()}

    @property
    def needs_spark(self) -> bool:
        """Whether some query is SQL."""
        return any(query.sql for query in self.queries)


def read_experiment(path: str) -> LoadedPlan:
    """Read and check a plan.

    Raises UsageError if the file cannot be read, or something in it is impossible or not allowed.
    """
    given: dict[str, Any]
    try:
        if Path(path).stat().st_size > MOST_BYTES:
            raise UsageError("is larger than 1 MB: no plan", path)
        content = Path(path).read_bytes()
        file = msgspec.json.decode(content, type=ExperimentPlan)
        given = msgspec.json.decode(content)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", path) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        advice = "`iqcar-lab schema experiment` describes a plan"
        raise UsageError(f"is no plan: {error}", path, advice) from error
    if max(file.levels) == 0:
        raise UsageError("only 0: nothing would be loaded", f"{path}: levels", "add 0.5 and 1")
    _check_own(file.hosts, f"{path}: hosts")
    queries = tuple(_query(q, f"{path}: queries[{n}]") for n, q in enumerate(file.queries))
    names = [query.name for query in queries]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two queries are called {twice[:40]!r}", f"{path}: queries")
    plan = LoadedPlan(
        queries=queries,
        strengths={name: _strength(name, values, path) for name, values in file.resources.items()},
        levels=tuple(sorted({level for level in file.levels if level > 0})),
        repeats=file.repeats,
        warm_up=file.warm_up,
        budget_s=parse_time(file.budget, f"{path}: budget"),
        longest_run_s=parse_time(file.longest_run, f"{path}: longest_run"),
        hosts=tuple(file.hosts),
        master=file.master,
        conf=file.conf,
        setup=tuple(file.setup),
        plugin=file.plugin,
        as_given=_without_secrets(given),
    )
    if plan.needs_spark and not plan.master:
        advice = 'write "local[2]" or spark://HOST:PORT'
        raise UsageError("is missing: SQL needs a Spark", f"{path}: master", advice)
    if plan.longest_run_s > LONGEST_S:
        raise UsageError("is longer than 1h, as no injection is", f"{path}: longest_run")
    return plan


def _without_secrets(value: Any, key: str = "") -> Any:
    """Return what a plan holds with secrets replaced, as elsewhere."""
    if isinstance(value, dict):
        return {name: _without_secrets(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_secrets(part) for part in value]
    return redact_setting(key, value, MOST_TEXT)[1] if isinstance(value, str) else value


def own_names() -> set[str]:
    """Return names of this host."""
    return {*THIS_HOST, socket.gethostname(), socket.getfqdn()}


def _check_own(hosts: list[str], where: str) -> None:
    """Refuse another machine."""
    for host in hosts:
        try:
            check_host(host)
        except UsageError as error:
            raise UsageError(f"{host[:80]!r}: {error}", where) from error
        if host not in own_names() and not _LOOPBACK.fullmatch(host):
            what = f"{host[:80]!r} is not this host ({socket.gethostname()})"
            raise UsageError(what, where, "run it on the host that shall be loaded")


def _query(query: PlannedQuery, where: str) -> PlannedQuery:
    if not query.name or not query.name.isprintable():
        raise UsageError("a query needs a printable name", where)
    if sum(map(bool, (query.sql, query.file, query.command))) != 1:
        raise UsageError("give one of sql, file and command", where)
    if not query.file:
        return query
    try:
        text = Path(query.file).read_text("utf-8").strip().rstrip(";")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", f"{where}.file") from error
    except UnicodeDecodeError as error:
        raise UsageError("is no text in UTF-8", f"{where}.file") from error
    if not text:
        raise UsageError("is empty", f"{where}.file")
    return PlannedQuery(query.name, sql=text)


def _strength(resource: str, values: dict[str, Any], path: str) -> AnomalySettings:
    where = f"{path}: resources.{resource[:40]}"
    if resource not in ANOMALY:
        raise UsageError(f"is none of {', '.join(ANOMALY)}", where)
    try:
        return settings_of(ANOMALY[resource], values)
    except UsageError as error:
        raise UsageError(str(error), where) from error


COVERAGE = 0.8
"""Of intervals, as in ``iqcar whatif``."""
LEAST_NOISE = 0.02
"""Spread of log slowdowns that is assumed at least: a few pairs that agree by luck prove little."""
GRID = 400
"""Values of r/C that are tried: steps of about 1 % between the smallest that shows and 1."""


@dataclass(frozen=True)
class Fit:
    """A fitted law.

    share: r/C, in [0, 1]. More than 1 cannot be told from 1: alone it is as slow as the device.
    low, high: 80 % interval; low is 0 where no slowdown is within it.
    residual: root mean square of log(measured / fitted).
    candidates, weights: (n,); values of r/C that were tried, and their likelihood, which sums to 1.
    """

    share: float
    low: float
    high: float
    residual: float
    candidates: Floats
    weights: Floats

    @property
    def identified(self) -> bool:
        """Whether some slowdown is certain."""
        return self.low > 0

    def predict(self, k: float) -> tuple[float, float, float]:
        """Return the slowdown under k hogs for each task, low and high."""
        said = slowdown(np.array([self.share, self.low, self.high]), k)
        return float(said[0]), float(said[1]), float(said[2])

    def uncertainty(self, k: float) -> float:
        """Standard deviation of the logarithm of the predicted slowdown."""
        said: Floats = np.log(slowdown(self.candidates, k))
        mean = float(self.weights @ said)
        return float(np.sqrt(max(float(self.weights @ (said - mean) ** 2), 0.0)))


def slowdown(share: Floats, k: Floats | float) -> Floats:
    """Return max(1, (1 + k) · r/C)."""
    found: Floats = np.maximum(1.0, (1.0 + np.asarray(k)) * share)
    return found


def fit_law(k: Floats, measured: Floats) -> Fit:
    """Fit r/C to slowdowns by least squares of their logarithms, with a profile interval.

    k: (n,); hogs for each task; n ≥ 1, at least one k > 0.
    measured: (n,); time with hogs / time of the run beside it without.
    """
    # Below the first value even the strongest load shows nothing: it stands for all of them.
    tried = np.geomspace(1.0 / (1.0 + k.max()), 1.0, GRID)
    off = np.log(measured)[None, :] - np.log(slowdown(tried[:, None], k[None, :]))
    squares = (off**2).sum(axis=1)
    best = int(np.argmin(squares))
    left = max(len(k) - 1, 1)
    variance = max(float(squares[best]) / left, LEAST_NOISE**2)
    quantile = float(t_quantile([0.5 - COVERAGE / 2], np.array([float(left)]))[0, 0])
    more = (squares - squares[best]) / variance
    within = tried[more <= quantile**2]
    weights = np.exp(-0.5 * more)
    flat = within[0] <= tried[0]
    return Fit(
        share=float(tried[best]),
        low=0.0 if flat else float(within[0]),
        high=float(within[-1]),
        residual=float(np.sqrt(squares[best] / len(k))),
        candidates=tried,
        weights=weights / weights.sum(),
    )


class Cell(NamedTuple):
    """A query under the hogs of a resource at a level."""

    query: str
    resource: str
    level: float

    @property
    def curve(self) -> tuple[str, str]:
        """The curve that it is a point of."""
        return self.query, self.resource


class Pair(NamedTuple):
    """A run under hogs and the run beside it without; elapsed ms, NaN where one failed."""

    cell: Cell
    alone_ms: float
    loaded_ms: float

    @property
    def failed(self) -> bool:
        """Whether one of the two has no time."""
        return not (self.alone_ms > 0 and self.loaded_ms > 0)


def cells_of(plan: LoadedPlan) -> list[Cell]:
    """Return all cells of a plan; the strongest levels, which tell most, first."""
    return [
        Cell(query.name, resource, level)
        for level in reversed(plan.levels)
        for query in plan.queries
        for resource in plan.strengths
    ]


def at_level(full: AnomalySettings, level: float) -> AnomalySettings:
    """Return the settings of hogs at a share of their strength at level 1."""
    if isinstance(full, CpuSettings):
        wanted = level * full.processes * full.share
        processes = max(math.ceil(wanted), 1)
        return replace(full, processes=processes, share=min(wanted / processes, 1.0))
    if isinstance(full, MemorySettings):
        least = full.processes * STEP_BYTES
        return replace(full, size_bytes=max(round(level * full.size_bytes), least))
    weaker: dict[str, Any] = {"processes": max(round(level * full.processes), 1)}
    if isinstance(full, (IoSettings, NetworkSettings)) and full.rate_bytes_per_s is not None:
        weaker["rate_bytes_per_s"] = level * full.rate_bytes_per_s
    if isinstance(full, IoSettings):
        least = weaker["processes"] * BLOCK_BYTES
        weaker["size_bytes"] = max(round(level * full.size_bytes), least)
    return replace(full, **weaker)


def streams(settings: AnomalySettings, full: AnomalySettings) -> float:
    """Return how many greedy users of the resource these hogs are like."""
    if isinstance(settings, CpuSettings):
        return settings.processes * settings.share
    if isinstance(settings, MemorySettings) and isinstance(full, MemorySettings):
        return settings.processes * settings.size_bytes / full.size_bytes
    return float(settings.processes)


def next_cell(plan: LoadedPlan, pairs: Sequence[Pair], at_once: Mapping[str, float]) -> Cell | None:
    """Choose the cell whose slowdown the fit so far predicts least certainly.

    Every cell comes once before any comes again; a cell that failed does not come again. The
    uncertainty is divided by the root of the runs of the cell, as the mean of them would be.

    Returns: None where all were repeated as often as the plan says.

    pairs: what was run.
    at_once: tasks that each query runs at once.
    """
    runs = Counter(pair.cell for pair in pairs)
    failed = {pair.cell for pair in pairs if pair.failed}
    left = [c for c in cells_of(plan) if runs[c] < plan.repeats and c not in failed]
    fresh = [cell for cell in left if runs[cell] == 0]
    if fresh or not left:
        return fresh[0] if fresh else None
    fits = {}
    for curve in {cell.curve for cell in left}:
        good = [pair for pair in pairs if pair.cell.curve == curve and not pair.failed]
        k = np.array([hogs_per_task(plan, pair.cell, at_once) for pair in good])
        fits[curve] = fit_law(k, np.array([pair.loaded_ms / pair.alone_ms for pair in good]))

    def uncertainty(cell: Cell) -> float:
        k = hogs_per_task(plan, cell, at_once)
        return fits[cell.curve].uncertainty(k) / math.sqrt(runs[cell])

    return max(left, key=uncertainty)


def hogs_per_task(plan: LoadedPlan, cell: Cell, at_once: Mapping[str, float]) -> float:
    """Return k, the hogs for each task of the query."""
    full = plan.strengths[cell.resource]
    return streams(at_level(full, cell.level), full) / max(at_once.get(cell.query, 1.0), 1e-9)
