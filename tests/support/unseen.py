"""Find characters that nobody sees, written apart from the code that takes them out."""

from __future__ import annotations

import unicodedata

SHOWN = set("\n\t\r\u2068\u2069")
"""Ends of lines, and what pages put around a name to keep its direction to itself."""


def unseen(text: str) -> set[str]:
    """Characters that nobody sees, but for those that pages hold themselves."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")} - SHOWN
