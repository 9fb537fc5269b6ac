"""Joining samples of hosts outside Spark (``iqcar sample``) to what the event logs say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iqcar import tables as tb
from iqcar.errors import IqcarError
from iqcar.logs.plugin.plugin_samples import add_sample, no_samples, parse, samples_frame


def read_sample_files(paths: Sequence[str | Path]) -> dict[str, list[Any]]:
    """Read files that ``iqcar sample`` wrote; damaged lines are left out.

    The result is as :func:`iqcar.logs.plugin.plugin_samples.decode_samples`.

    Raises IqcarError if a file cannot be read or holds no sample at all.
    """
    columns = no_samples()
    for path in paths:
        before = len(columns["host"])
        try:
            with Path(path).open("rb") as file:
                for line in file:
                    sample = parse(line)
                    host = sample.get("host")
                    if isinstance(host, str):
                        add_sample(columns, sample, host)
        except OSError as error:
            raise IqcarError(f"cannot be read: {error.strerror}", str(path)) from error
        if len(columns["host"]) == before:
            raise IqcarError("holds no samples", str(path), "give a file of `iqcar sample`")
    return columns


def join_samples(tables: tb.Tables, paths: Sequence[str | Path]) -> tb.Tables:
    """Add samples taken outside Spark to the tables.

    Parameters
    ----------
    tables : from :func:`iqcar.logs.read_logs`.
    paths : files of ``iqcar sample``.

    Returns ``samples`` with a row for each that was taken while an application ran. A host counts
    as one of Spark's if the names are equal but for case, or up to the first dot; any other is
    added to ``hosts``.

    Raises IqcarError if a file cannot be read or holds no sample at all.
    """
    columns = read_sample_files(paths)
    time = np.array(columns["time_ms"], np.float64)
    since = time - np.array(columns["duration_ms"], np.float64)
    during = np.zeros(len(time), bool)
    for first, last in tables.applications[["start_ms", "end_ms"]].itertuples(index=False):
        during |= (time >= first) & (since <= last)
    columns = {name: list(compress(values, during)) for name, values in columns.items()}
    known = tb.texts(tables.hosts, "host")
    spelt = {_short(name): name for name in reversed(known)}
    spelt.update({name.lower(): name for name in known})
    columns["host"] = [
        spelt.get(name.lower(), spelt.get(_short(name), name)) for name in columns["host"]
    ]
    hosts = {name: row for row, name in enumerate(known)}
    added = samples_frame(columns, tb.NONE, hosts, {})
    both = [frame for frame in (tables.samples, added) if len(frame)]
    samples = pd.concat(both, ignore_index=True) if both else tables.samples
    return tables.with_(hosts=tb.HOSTS.frame({"host": list(hosts)}), samples=samples)


def _short(name: str) -> str:
    """Return the name up to its first dot; an address as it is."""
    return name.lower() if name.replace(".", "").isdigit() else name.lower().split(".", 1)[0]
