"""Adds the server's bar above a report: the way back, whether the log has grown, and neighbours."""

from __future__ import annotations

import gzip
import re

_BODY = re.compile(rb'<body[^>]*>(\s*<a class="skip"[^>]*>[^<]*</a>)?')
"""The bar stands after the link that skips what is above the report."""
_POLICIES = re.compile(rb'<meta (?:http-equiv="Content-Security-Policy"|name="referrer")[^>]*>\n?')
"""What a report from a disk says of itself; from here headers say it. Under its ``no-referrer``
browsers would send the bar's forms without their origin, and they would be refused."""


def with_bar(page: bytes, bar: str) -> bytes:
    """Put the bar at the top of a report, and take out the policies that the bar breaks.

    Parameters
    ----------
    page : bytes
        As it is stored: compressed.
    bar : str
        Escaped HTML.

    Returns
    -------
    bytes
        Compressed again; has to be sent with :func:`policy_with_bar`.
    """
    whole = gzip.decompress(page)
    match = _BODY.search(whole)
    at = match.end() if match else 0
    # Only the head: what comes from logs stands in the body.
    head = _POLICIES.sub(b"", whole[:at])
    return gzip.compress(head + bar.encode() + whole[at:], 1, mtime=0)


def policy_with_bar(policy: str) -> str:
    """Extend a report's policy by what the bar needs: our style and program, questions, forms."""
    parts = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
    for name in ("style-src", "script-src", "img-src"):
        own = [value for value in parts.get(name, "").split() if value != "'self'"]
        parts[name] = " ".join(["'self'", *own])
    parts |= {"connect-src": "'self'", "form-action": "'self'", "frame-ancestors": "'none'"}
    return "; ".join(f"{name} {values}" for name, values in parts.items())
