"""Words of reports; pictures share them, so they live in :mod:`iqcar.words`."""

from iqcar.words import (
    NAME_WIDTH,
    REQUEST_NAMES,
    RESOURCE_NAMES,
    breakdown,
    duration,
    percent,
    printable,
    resource_name,
    short,
)

__all__ = [
    "NAME_WIDTH",
    "REQUEST_NAMES",
    "RESOURCE_NAMES",
    "breakdown",
    "duration",
    "percent",
    "printable",
    "resource_name",
    "short",
]
