"""Holds own rates and capacities that earlier runs told, or that this run tells later ones.

A stage is that of an earlier run if its query has the same fingerprint, and it is the n-th of the
query's stages that do the same. Values are natural logarithms of data units per ms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.enums import REQUESTS
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Floats, Ints

OTHER_HOSTS = 0.3
"""Standard deviation, in log, that an own rate has more on hosts of which none is known."""
BOUNDS = (-12.0, 30.0)
"""Logarithms of what a device or task can be: bytes per ms, or cores."""
CONTRADICTED = (
    "nothing of the {} was used: most queries whose own rates this run tells had others in it"
)
"""Said of the store, or of the file of curves."""
STAGE_KEY = ["fingerprint", "stage", "position", "request"]
HOST_KEY = ["host", "request"]


class KnownRates(NamedTuple):
    """Own rates of stages: rows of the stage and of its query, position of the request."""

    stage: Ints
    query: Ints
    request: Ints
    log_rate: Floats
    variance: Floats

    def where(self, rows: Flags) -> KnownRates:
        """Return some of them."""
        stage, query, request, log_rate, variance = self
        return KnownRates(stage[rows], query[rows], request[rows], log_rate[rows], variance[rows])


class KnownCapacities(NamedTuple):
    """Capacities of devices: row of the host, position of the request."""

    host: Ints
    request: Ints
    log_capacity: Floats
    variance: Floats


_NO_ROWS, _NOTHING = np.zeros(0, np.int64), np.zeros(0)
_NO_RATES = KnownRates(_NO_ROWS, _NO_ROWS, _NO_ROWS, _NOTHING, _NOTHING)
_NO_CAPACITIES = KnownCapacities(_NO_ROWS, _NO_ROWS, _NOTHING, _NOTHING)


@dataclass(frozen=True)
class Known:
    """What is known of the stages and hosts of some tables.

    measured_rates, measured_capacities: pairs of stage, or host, and request that an experiment
        told, as :func:`pair_codes`; earlier runs told the others.
    """

    rates: KnownRates = _NO_RATES
    capacities: KnownCapacities = _NO_CAPACITIES
    measured_rates: Ints = field(default_factory=lambda: _NO_ROWS)
    measured_capacities: Ints = field(default_factory=lambda: _NO_ROWS)

    def __bool__(self) -> bool:
        return bool(len(self.rates.stage) or len(self.capacities.host))

    def over(self, other: Known) -> Known:
        """Return what an experiment told here, and what is known besides."""
        rates, capacities = self.rates, self.capacities
        codes = pair_codes(rates.stage, rates.request)
        hosts = pair_codes(capacities.host, capacities.request)
        rest = other.rates.where(
            ~np.isin(pair_codes(other.rates.stage, other.rates.request), codes)
        )
        kept = ~np.isin(pair_codes(other.capacities.host, other.capacities.request), hosts)
        both = KnownRates(
            np.append(rates.stage, rest.stage), np.append(rates.query, rest.query),
            np.append(rates.request, rest.request), np.append(rates.log_rate, rest.log_rate),
            np.append(rates.variance, rest.variance),
        )  # fmt: skip
        besides = other.capacities
        devices = KnownCapacities(
            np.append(capacities.host, besides.host[kept]),
            np.append(capacities.request, besides.request[kept]),
            np.append(capacities.log_capacity, besides.log_capacity[kept]),
            np.append(capacities.variance, besides.variance[kept]),
        )
        return Known(both, devices, codes, hosts)


def pair_codes(row: Ints, request: Ints) -> Ints:
    """Return one number per stage, or host, and request."""
    return row * len(REQUESTS) + request


@dataclass(frozen=True)
class Learned:
    """What a fit to a run tells.

    told: what the run's own tasks tell.
    recalled: own rates and capacities that earlier runs decided; means and variances afterwards.
    refused: whether the run contradicts what earlier runs told, so that nothing of it was used.
    """

    told: Known = field(default_factory=Known)
    recalled: Known = field(default_factory=Known)
    refused: bool = False


@dataclass(frozen=True)
class Recalled:
    """What a store holds of the recurring queries and hosts of some runs, earlier runs merged.

    rates: columns `STAGE_KEY`, ``log_value`` and ``variance``; capacities: `HOST_KEY` and these.
    same_hosts: whether the store knows any of the hosts.
    doubts: what was ignored, in sentences.
    """

    rates: pd.DataFrame
    capacities: pd.DataFrame
    same_hosts: bool
    doubts: tuple[str, ...] = ()

    def of(self, tables: Tables) -> Known:
        """Return what is known of the stages and hosts of some tables."""
        stages = stage_keys(tables).merge(_numbered(self.rates), on=STAGE_KEY[:3])
        names = pd.DataFrame({"host": texts(tables.hosts, "host")}).reset_index(names="row")
        hosts = names.merge(_numbered(self.capacities), on="host")
        variance = stages["variance"].to_numpy(np.float64)
        if not self.same_hosts:
            variance = variance + OTHER_HOSTS**2

        def rows(frame: pd.DataFrame, name: str) -> Ints:
            numbers: Ints = frame[name].to_numpy(np.int64)
            return numbers

        return Known(
            KnownRates(
                rows(stages, "row"), rows(stages, "query"), rows(stages, "request"),
                stages["log_value"].to_numpy(np.float64), variance,
            ),
            KnownCapacities(
                rows(hosts, "row"), rows(hosts, "request"),
                hosts["log_value"].to_numpy(np.float64), hosts["variance"].to_numpy(np.float64),
            ),
        )  # fmt: skip


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """Name requests by their positions; leave out those of another version."""
    number = frame["request"].map({str(request): n for n, request in enumerate(REQUESTS)})
    return frame.assign(request=number).dropna(subset="request").astype({"request": np.int64})


def stage_keys(tables: Tables) -> pd.DataFrame:
    """Return what tells a stage in every run: ``row``, ``query``, ``fingerprint``, ``stage`` and
    ``position``, of stages that belong to a query with a fingerprint.
    """
    stages = tables.stages
    label, site = texts(stages, "label"), texts(stages, "name")
    query = stages["query"].to_numpy(np.int64)
    prints = np.array([*texts(tables.queries, "fingerprint"), ""], object)
    found = pd.DataFrame(
        {
            "row": np.arange(len(stages)),
            "query": query,
            "fingerprint": prints[query],
            "stage": [own or named for own, named in zip(label, site, strict=True)],
            "id": stages["stage_id"].to_numpy(np.int64),
        }
    )
    found = found[(query >= 0) & (found["fingerprint"] != "").to_numpy()]
    found["position"] = found.groupby(["query", "stage"])["id"].rank("dense").astype(np.int64) - 1
    return found.drop(columns="id")
