"""Name of a report's file, from the paths of its logs."""

from __future__ import annotations

import re
from collections.abc import Sequence

SEVERAL = "iqcar-report.html"
"""Name of a report about several paths, or about one that has no name of its own."""
_KNOWN_ENDINGS = re.compile(
    r"(\.(inprogress|zstd|zst|lz4|snappy|lzf|gz|bz2|zip|json|log))+$", re.IGNORECASE
)


def report_name(paths: Sequence[str]) -> str:
    """Name the file after the log: ``app-1.zstd`` becomes ``app-1-report.html``, here.

    >>> report_name(["/logs/app-1.zstd"]), report_name(["a", "b"]), report_name(["logs/*"])
    ('app-1-report.html', 'iqcar-report.html', 'iqcar-report.html')
    """
    if len(paths) != 1:
        return SEVERAL
    name = re.split(r"[/\\]", paths[0].rstrip("/\\"))[-1]
    stem = _KNOWN_ENDINGS.sub("", name)
    plain = re.fullmatch(r"[\w][\w.\- ]{0,120}", stem)
    return f"{stem}-report.html" if plain else SEVERAL
