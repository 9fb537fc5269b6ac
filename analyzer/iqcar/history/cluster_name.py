"""Names the cluster that an application ran on, by its spark.master."""

from __future__ import annotations

import re
from hashlib import sha256
from urllib.parse import quote

UNKNOWN = "unknown"
LONGEST_FOLDER = 120
"""Bytes of a cluster's name in a path; most file systems allow 255."""
_ADDRESS = re.compile(r"(?:k8s://(?:https?://)?|[a-z]+://)([^/?#]*)")


def cluster_of(master: str) -> str:
    """Return the cluster that a master belongs to.

    Parameters
    ----------
    master : str
        ``local[4]``, ``yarn``, ``spark://host:7077``, ``k8s://https://host:443``; may be empty.

    Returns
    -------
    str
        ``local``, ``yarn``, or the address without user and password.
    """
    if master.startswith("local"):
        return "local"
    address = _ADDRESS.match(master)
    if address:
        return address[1].rpartition("@")[2] or UNKNOWN
    return master or UNKNOWN


def bounded_cluster(name: str) -> str:
    """Return a cluster's name as it is kept: a long one is cut, and told apart by its hash."""
    whole = name.encode("utf-8", "replace").decode()
    if len(quote(whole, safe="")) <= LONGEST_FOLDER:
        return whole
    kept = whole
    while len(quote(kept, safe="")) > LONGEST_FOLDER - 13:
        kept = kept[: max(len(kept) - 8, 0)]
    return f"{kept}~{sha256(whole.encode()).hexdigest()[:12]}"
