"""Diagnose each group of logs on an executor, and send what a function makes of the diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as pd

from iqcar.enums import QueryBy
from iqcar.errors import UsageError
from iqcar.fleet.faults import faults_of
from iqcar.fleet.steps import groups
from iqcar.fleet.transport import rows_of
from iqcar.logs.leave_out import without_faulty
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.pipeline import diagnose
from iqcar.tables import Tables, texts

if TYPE_CHECKING:
    from iqcar.fleet.shared_hosts import SharedDevices
    from iqcar.fleet.steps import Group

ANSWERS = "answers"
"""Kind of the rows that hold answers."""
OUTLINED = ("inputs", "applications", "hosts")
"""Tables whose rows the driver gets of each log."""


@dataclass(frozen=True)
class Asked:
    """What is to be made of each diagnosis.

    Attributes
    ----------
    function : str
        ``package.module:function``, called with the diagnosis, then with the arguments. It and
        what it imports have to be there on the executors; iqcar's own code is.
    arguments : tuple
    options : mapping of str to object
        Further arguments of :func:`iqcar.pipeline.diagnose`.
    """

    function: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def find(self) -> Callable[..., Any]:
        """Import the function.

        Raises
        ------
        UsageError
            If there is none of that name.
        """
        module, _, name = self.function.partition(":")
        try:
            found: Callable[..., Any] = getattr(import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise UsageError(f"no function is called so: {error}", self.function) from error
        return found


@dataclass(frozen=True)
class Answer:
    """What the function returned for one group.

    Attributes
    ----------
    logs : numbers of the group's logs, among the inputs
    value : what the function returned; None if no application of the group could be diagnosed
    faults : why applications were left out, by the number of the log
    """

    logs: tuple[int, ...]
    value: Any
    faults: dict[int, str]


def diagnose_step(
    asked: Asked, known: SharedDevices, query_by: QueryBy, batches: Iterator[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    """Diagnose each group, with the devices that were estimated from all groups."""
    function = asked.find()

    def work(tables: Tables) -> tuple[Any, Tables]:
        devices = known.of_hosts(texts(tables.hosts, "host"))
        diagnosis = diagnose(add_critical_path(tables), devices=devices, **asked.options)
        return function(diagnosis, *asked.arguments), diagnosis.tables

    for group in groups(query_by, batches):
        yield from rows_of(group.number, ANSWERS, _answer(group, work))


def _answer(group: Group, work: Callable[[Tables], tuple[Any, Tables]]) -> Answer:
    """Do the work; leave out the applications in which a bug is met."""
    logs = tuple(group.logs.tolist())
    try:
        value, left = without_faulty(group.tables, work)
    except Exception:
        faults = faults_of(group.alone(), lambda alone: work(alone.tables))
        if len(faults) < len(logs):
            raise
        return Answer(logs, None, faults)
    apps, messages = left.inputs["app"].tolist(), texts(left.inputs, "message")
    faulty = {log: messages[row] for row, log in enumerate(logs) if apps[row] < 0}
    return Answer(logs, value, faulty)
