"""Choose the next application that the server analyses without being asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from iqcar.enums import InputStatus

if TYPE_CHECKING:
    from iqcar.apps.serve.applications import Application, Identity

MS_PER_HOUR = 3_600_000.0


class NewLogs:
    """Chooses applications that ended lately, each state of a log once.

    Parameters
    ----------
    within_hours : float
        How long ago an application may have ended.
    """

    def __init__(self, within_hours: float) -> None:
        self._within_ms = within_hours * MS_PER_HOUR
        self._chosen: dict[str, Identity] = {}

    def choose(self, applications: Iterable[Application], now_ms: float) -> Application | None:
        """Return the one that ended last and has no result yet; None if there is none.

        What was chosen before is not chosen again until its log changes, so that a log whose
        analysis fails does not keep out the others.

        Parameters
        ----------
        applications : iterable of Application
            All that are listed.
        now_ms : float
            Since the epoch.
        """
        listed = {one.key: one for one in applications}
        self._chosen = {key: was for key, was in self._chosen.items() if key in listed}
        newest = max(
            (one for one in listed.values() if self._is_new(one, now_ms)),
            key=lambda one: (one.ran_until_ms or 0.0, one.key),
            default=None,
        )
        if newest is not None:
            self._chosen[newest.key] = newest.identity
        return newest

    def _is_new(self, one: Application, now_ms: float) -> bool:
        ended = one.peek is not None and one.peek.status is InputStatus.COMPLETE
        if not ended or one.log is None or one.summary_is_current:
            return False
        until = one.ran_until_ms
        if until is None or now_ms - until > self._within_ms:
            return False
        return self._chosen.get(one.key) != one.identity
