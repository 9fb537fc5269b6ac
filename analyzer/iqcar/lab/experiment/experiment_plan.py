"""Reads plans of experiments: queries, resources, levels, repeats, budget, and hosts for hogs."""

from __future__ import annotations

import re
import shlex
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from iqcar.base.units import parse_time
from iqcar.errors import UsageError
from iqcar.lab.inject.anomalies import LONGEST_S, Anomaly, AnomalySettings
from iqcar.lab.inject.plan import check_host, settings_of
from iqcar.logs.text import redact_setting

ANOMALY = {
    "cpu": Anomaly.CPU,
    "disk": Anomaly.IO,
    "network": Anomaly.NETWORK,
    "memory": Anomaly.MEMORY,
}
"""Resources as ``iqcar whatif`` names them, and what is injected to load each."""
MOST_TEXT = 100_000
"""Characters of a text of the plan that its results hold."""
LEVELS = (0.0, 0.25, 0.5, 1.0)
MOST_BYTES = 1 << 20
MOST_QUERIES, MOST_LEVELS, MOST_REPEATS = 1000, 20, 100
THIS_HOST = ("localhost", "127.0.0.1", "::1")
_LOOPBACK = re.compile(r"127\.\d{1,3}\.\d{1,3}\.\d{1,3}")


class PlannedQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One query: ``sql``, or a ``file`` with SQL, or a ``command`` that runs it."""

    name: str
    sql: str = ""
    file: str = ""
    command: tuple[str, ...] = ()


class _ExperimentFile(msgspec.Struct, forbid_unknown_fields=True):
    queries: list[PlannedQuery]
    resources: dict[str, dict[str, Any]]
    hosts: list[str] | dict[str, str]
    budget: str
    master: str = ""
    conf: dict[str, str] = {}
    setup: list[str] = []
    levels: tuple[float, ...] = LEVELS
    repeats: int = 3
    warm_up: int = 1
    longest_run: str = "10m"
    plugin: bool = True


class HogHost(NamedTuple):
    """A machine on which hogs run.

    host: as the plan names it; of several names of this machine the first.
    command: words before ``iqcar inject`` that run it there, such as ``ssh HOST``; empty: this
        machine.
    """

    host: str
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadedPlan:
    """What is to be run; as in the file (``iqcar schema experiment``), checked.

    queries: each with SQL or a command; files are read.
    strengths: settings of the hogs at level 1 by resource.
    levels: shares of these settings, above 0 and at most 1, rising. Level 0 is in every pair.
    as_given: the file's content without secrets.
    hosts: names of all hosts under hogs.
    places: the machines that these names stand for.
    """

    queries: tuple[PlannedQuery, ...]
    strengths: dict[str, AnomalySettings]
    levels: tuple[float, ...]
    repeats: int
    warm_up: int
    budget_s: float
    longest_run_s: float
    hosts: tuple[str, ...]
    places: tuple[HogHost, ...]
    master: str
    conf: dict[str, str]
    setup: tuple[str, ...]
    plugin: bool
    as_given: dict[str, Any]

    @property
    def loaded_hosts(self) -> set[str]:
        """Names of all hosts under hogs, this one's others too where it is among them."""
        here = any(not place.command for place in self.places)
        return {*self.hosts, *(own_names() if here else ())}

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
        file = msgspec.json.decode(content, type=_ExperimentFile)
        given = msgspec.json.decode(content)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", path) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        advice = "`iqcar schema experiment` describes a plan"
        raise UsageError(f"is no plan: {error}", path, advice) from error
    _check_numbers(file, path)
    places = _places(file.hosts, path)
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
        places=places,
        master=file.master,
        conf=file.conf,
        setup=tuple(file.setup),
        plugin=file.plugin,
        as_given=_without_secrets(given),
    )
    if plan.needs_spark and not plan.master:
        raise UsageError(
            "is missing: SQL needs a Spark",
            f"{path}: master",
            'write "local[2]" or spark://HOST:PORT',
        )
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


def _check_numbers(file: _ExperimentFile, path: str) -> None:
    for what, count, least, most in (
        ("queries", len(file.queries), 1, MOST_QUERIES),
        ("resources", len(file.resources), 1, len(ANOMALY)),
        ("levels", len(file.levels), 1, MOST_LEVELS),
        ("hosts", len(file.hosts), 1, MOST_QUERIES),
        ("repeats", file.repeats, 1, MOST_REPEATS),
        ("warm_up", file.warm_up, 0, MOST_REPEATS),
    ):
        if not least <= count <= most:
            raise UsageError(f"{count} is not {least} to {most}", f"{path}: {what}")
    wrong = [level for level in file.levels if not 0 <= level <= 1]
    if wrong:
        raise UsageError(f"{wrong[0]:g} is not 0 to 1", f"{path}: levels")
    if max(file.levels) == 0:
        raise UsageError("only 0: nothing would be loaded", f"{path}: levels", "add 0.5 and 1")


def own_names() -> set[str]:
    """Return names of this host."""
    return {*THIS_HOST, socket.gethostname(), socket.getfqdn()}


def _places(hosts: list[str] | dict[str, str], path: str) -> tuple[HogHost, ...]:
    """Return the machines of a plan's hosts; refuse another machine without a command."""
    commands = hosts if isinstance(hosts, dict) else dict.fromkeys(hosts, "")
    own = own_names()
    places: list[HogHost] = []
    for host, words in commands.items():
        where = f"{path}: hosts"
        try:
            check_host(host)
            command = tuple(shlex.split(words))
        except (UsageError, ValueError) as error:
            raise UsageError(f"{host[:80]!r}: {error}", where) from error
        if not command and host not in own and not _LOOPBACK.fullmatch(host):
            raise UsageError(
                f"{host[:80]!r} is not this host ({socket.gethostname()}), and has no command",
                where,
                f'write {{"{host[:80]}": "ssh {host[:80]}"}}',
            )
        if command or not any(not place.command for place in places):
            places.append(HogHost(host, command))
    return tuple(places)


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
