"""The server's own bar above a report: where one is, whether the log has grown, what ran beside."""

from __future__ import annotations

import gzip
import re

from iqcar.serve.guard import CONTENT_POLICY

_BODY = re.compile(rb"<body[^>]*>")


def with_bar(page: bytes, bar: str) -> tuple[bytes, dict[str, str]]:
    """Put the bar at the top of a report.

    Parameters
    ----------
    page : bytes
        As it is stored: compressed.
    bar : str
        Escaped HTML.

    Returns
    -------
    tuple of bytes and dict
        The page, compressed, and the headers it has to be sent with.
    """
    whole = gzip.decompress(page)
    match = _BODY.search(whole)
    at = match.end() if match else 0
    whole = whole[:at] + bar.encode() + whole[at:]
    return gzip.compress(whole, 1, mtime=0), {"Content-Security-Policy": CONTENT_POLICY}
