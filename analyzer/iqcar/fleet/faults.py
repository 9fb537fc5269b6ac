"""Find the applications in which a step on executors meets a bug.

A step that meets a bug looks at each application of its group alone, as
:func:`iqcar.logs.leave_out.without_faulty` does, and sends what it met instead of a result. The
driver then leaves these applications out and starts again from the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from iqcar.errors import IqcarError, explain_bug
from iqcar.logs.leave_out import leave_out
from iqcar.tables import Tables

Part = TypeVar("Part")


class FaultsError(IqcarError):
    """A step met bugs in some applications.

    Attributes
    ----------
    reasons : mapping of int to str
        What was met, by the number of the application's log.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        first = next(iter(reasons.values()))
        super().__init__(f"a step failed on an executor: {first}", "--on-spark")
        self.reasons = reasons

    def leave_out_of(self, tables: Tables) -> Tables:
        """Leave the faulty applications out of the tables; raise this where none would be left."""
        apps = tables.inputs["app"].tolist()
        faulty = {apps[log]: reason for log, reason in self.reasons.items()}
        if len(faulty) == len(tables.applications):
            raise self
        return leave_out(tables, faulty)


def faults_of(parts: Iterable[tuple[int, Part]], work: Callable[[Part], object]) -> dict[int, str]:
    """Do some work on each part alone; return what was met, by the number of the part's log."""
    faults = {}
    for log, part in parts:
        try:
            work(part)
        except Exception as error:
            faults[log] = f"analysing it {explain_bug(error)}"
    return faults
