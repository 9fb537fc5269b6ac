"""Figures of :mod:`iqcar.plots` for the page: as they are, or as patterns it fills again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iqcar.plots.theme import DARK, LIGHT, scale, template

if TYPE_CHECKING:
    from iqcar.diagnosis import Diagnosis
    from iqcar.plots.theme import Theme


def figures_payload(diagnosis: Diagnosis) -> dict[str, Any]:
    """Both looks."""
    return {"looks": {"light": _look(LIGHT, dark=False), "dark": _look(DARK, dark=True)}}


def _look(theme: Theme, *, dark: bool) -> dict[str, Any]:
    return {
        "template": template(dark).to_plotly_json(),
        "scale": scale(dark),
        "ink": theme.ink,
        "faint": theme.faint,
        "line": theme.line,
        "paper": theme.paper,
    }
