"""Replacing parts of a text in time that grows with its length, whatever the text: with RE2.

Python's own `re` tries one way after the other; of a text made for it, or just of a long one, it
needs the square of its length or worse. RE2 follows all ways at once. It works on UTF-8, so texts
are encoded once for all patterns. It knows no looking ahead or behind: a pattern holds what must
stand around a match too, and its first group is the part that is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import re2

Match = Any

WORD = r"\p{L}\p{N}_"
"""What Python's ``\\w`` stands for, to be put between square brackets; RE2's knows only ASCII."""

BLANK = "\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What Python's ``\\s`` stands for, to be put between square brackets."""

START = rf"(?:^|[^{WORD}])"
"""The start of the text, or a character before a word."""

STOP = rf"(?:\z|[^{WORD}])"
"""The end of the text, or a character behind a word."""

END = r"\n?\z"
"""The end of the text, or of its last line: Python's ``$``."""


class Replacement(NamedTuple):
    """What is replaced, and by what.

    Attributes
    ----------
    held : what each match holds: texts without it are not searched.
    pattern : compiled pattern
        Its first group is the part that is replaced; a match without it is passed over.
    instead : makes of a match what stands in that place.
    back : whether the last byte of a replaced part may be what stands before the next one.
    """

    held: bytes
    pattern: Any
    instead: Callable[[Match], bytes]
    back: bool = False

    def apply(self, text: bytes) -> bytes:
        """Return a text with every match replaced, from left to right."""
        if self.held not in text:
            return text
        search, done = self.pattern.search, 0
        pieces: list[bytes] = []
        match = search(text)
        while match is not None:
            start, end = match.span(1)
            if start < 0:
                end = max(match.end(), done)
            else:
                pieces += text[done:start], self.instead(match)
                done = end
            match = search(text, max(end - self.back, 0)) if end < len(text) else None
        if not pieces:
            return text
        pieces.append(text[done:])
        return b"".join(pieces)


class _Pattern:
    """A pattern that is compiled when it is first used: some take a tenth of a second."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    @cached_property
    def _compiled(self) -> Any:
        return re2.compile(self._pattern, _OPTIONS)

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(self._compiled, name)
        return found


def compiled(pattern: str) -> Any:
    """Return a pattern for texts in UTF-8, with the methods of those of RE2."""
    return _Pattern(pattern)


def replacement(held: str, pattern: str, instead: str, back: bool = False) -> Replacement:
    r"""Make a replacement by fixed text, in which ``\2`` and so on stand for groups."""
    pieces = instead.split("\\")
    first = pieces[0].encode()
    rest = [(int(piece[0]), piece[1:].encode()) for piece in pieces[1:]]

    def fill(match: Match) -> bytes:
        return first + b"".join((match[group] or b"") + text for group, text in rest)

    def same(_: Match) -> bytes:
        return first

    return Replacement(held.encode(), compiled(pattern), fill if rest else same, back)


def encoded(text: str) -> bytes:
    """Encode a text; half a surrogate pair, which is no text, becomes a question mark."""
    return text.encode("utf-8", "replace")


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


_OPTIONS = _options()
