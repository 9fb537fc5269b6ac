"""Find what differs between two sides besides their queries, and what of it fits a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iqcar.comparison.settings_difference import SettingDifference, Symptom, setting_differences
from iqcar.enums import ChangeKind

if TYPE_CHECKING:
    from iqcar.comparison.side_facts import SideFacts

OF_THE_VERSION = (
    ChangeKind.STRUCTURE,
    ChangeKind.RATE,
    ChangeKind.MEMORY,
    ChangeKind.ENVIRONMENT,
)
"""Kinds of change that another version of Spark can be the reason of."""


class Differences(NamedTuple):
    """What differs between the sides besides the queries; nothing here is a cause by itself.

    Attributes
    ----------
    settings : tuple of SettingDifference
    hosts : tuple of (tuple of str, tuple of str)
        Hosts only before, and only after.
    versions : tuple of (tuple of str, tuple of str), or None
        Spark versions before and after where they differ.
    local : bool
        Whether tasks run in the driver, on both sides.
    """

    settings: tuple[SettingDifference, ...] = ()
    hosts: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    versions: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    local: bool = False

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
