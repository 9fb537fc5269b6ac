"""The lines of an event log's blocks, for the tests of how logs are divided."""

from __future__ import annotations

from collections.abc import Iterable


def lines_of(blocks: Iterable[bytes]) -> list[bytes]:
    """Lines without their newlines, blank ones left out; every block is whole lines."""
    found = []
    for block in blocks:
        assert block.endswith(b"\n")
        assert block.strip()
        found += [line.removesuffix(b"\r") for line in block.split(b"\n") if line.strip()]
    return found
