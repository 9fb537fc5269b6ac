"""The page of one analysis, as it is kept and served."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iqcar.diagnosis import Diagnosis


def report_page(diagnosis: Diagnosis, title: str) -> bytes:
    """Render the report of a diagnosis."""
    body = diagnosis._repr_html_()
    return f"<!doctype html><title>{escape(title)}</title><body>{body}".encode()
