"""Names the cluster that an application ran on, by its spark.master."""

from __future__ import annotations

import re

UNKNOWN = "unknown"
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
