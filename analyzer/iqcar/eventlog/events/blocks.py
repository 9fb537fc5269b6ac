"""Blocks: some lines of a log that are still in one piece, and where each of them is.

Processes that decode nothing but tasks import this file, so it must be quick to import.
"""

from __future__ import annotations

import msgspec

_SPACE = 32


class Block(msgspec.Struct, frozen=True, gc=False):
    """Some lines of a log in one piece of text.

    Attributes
    ----------
    text : bytes
        The lines and what separates them.
    starts, ends : list of int
        Start and end of each line in the text, without its newline; none is blank.
    newlines : int
        Number of newlines in the text: lines, blank ones too.
    """

    text: bytes
    starts: list[int]
    ends: list[int]
    newlines: int

    @classmethod
    def of(cls, text: bytes) -> Block:
        """Find the lines of a text, the last of which must end in a newline too."""
        find = text.find
        starts, ends = [], []
        newlines, start, end = 0, 0, find(b"\n")
        while end >= 0:
            if text[start] > _SPACE or text[start:end].strip():
                starts.append(start)
                ends.append(end)
            newlines += 1
            start = end + 1
            end = find(b"\n", start)
        return cls(text, starts, ends, newlines)

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.starts)

    def line(self, number: int) -> bytes:
        """Return one line without its newline."""
        return self.text[self.starts[number] : self.ends[number]].removesuffix(b"\r")

    def lines(self) -> list[bytes]:
        """Return all lines without their newlines."""
        return [self.line(number) for number in range(len(self))]
