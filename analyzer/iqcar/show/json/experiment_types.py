"""Declares what ``iqcar experiment`` takes."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

ONE_WAY = {"oneOf": [{"required": [way]} for way in ("sql", "file", "command")]}


class ExperimentQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One query, and how it is run."""

    name: Annotated[str, Meta(description="Unique; curves of queries carry it.", min_length=1)]
    sql: Annotated[str | UnsetType, Meta(description="SQL text, run with the noop sink.")] = UNSET
    file: Annotated[
        str | UnsetType, Meta(description="File with SQL, relative to the working directory.")
    ] = UNSET
    command: Annotated[
        list[str] | UnsetType,
        Meta(
            description="Program and arguments that run one query; its whole time counts, and exit "
            "code 0 means that it worked."
        ),
    ] = UNSET


class ExperimentResource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hogs by what they load."""

    cpu: Annotated[dict[str, Any] | UnsetType, Meta(description="processes, share, cores")] = UNSET
    disk: Annotated[
        dict[str, Any] | UnsetType,
        Meta(description="processes, folder, size_bytes, read_share, rate_bytes_per_s, cores"),
    ] = UNSET
    network: Annotated[
        dict[str, Any] | UnsetType,
        Meta(
            description="processes, listen, source, message_bytes, rate_bytes_per_s, cores; over "
            "loopback"
        ),
    ] = UNSET
    memory: Annotated[
        dict[str, Any] | UnsetType, Meta(description="processes, size_bytes, cores")
    ] = UNSET


class ExperimentPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `iqcar experiment` takes: a plan."""

    queries: Annotated[
        list[Annotated[ExperimentQuery, Meta(extra_json_schema=ONE_WAY)]],
        Meta(
            description="What to run, 1 to 1000. Each has a name and one of sql, file and command.",
            min_length=1,
            max_length=1000,
        ),
    ]
    resources: Annotated[
        ExperimentResource,
        Meta(
            description="What to load, with the settings of its hogs at level 1, as `iqcar inject` "
            "has them; {} for its defaults.",
            extra_json_schema={"minProperties": 1},
        ),
    ]
    hosts: Annotated[
        Annotated[list[str], Meta(min_length=1)] | Annotated[dict[str, str], Meta(min_length=1)],
        Meta(
            description="Own hosts on which hogs may run: names or loopback addresses of this "
            "machine; or an object of hosts, as Spark names them, and the words before "
            "iqcar inject that run it there, such as ssh HOST (empty: this machine)."
        ),
    ]
    budget: Annotated[
        str,
        Meta(
            description="Time from when Spark is up after which no pair is started: 90s, 20m, 1h."
        ),
    ]
    master: Annotated[str | UnsetType, Meta(description="Spark master; needed for SQL.")] = UNSET
    conf: Annotated[dict[str, str] | UnsetType, Meta(description="Spark settings.")] = UNSET
    setup: Annotated[
        list[str] | UnsetType,
        Meta(description="SQL that is run once before all queries, such as CREATE TEMPORARY VIEW."),
    ] = UNSET
    levels: Annotated[
        Annotated[list[Annotated[float, Meta(ge=0, le=1)]], Meta(min_length=1, max_length=20)]
        | UnsetType,
        Meta(
            description="Shares of the hogs' settings. 0, the query alone, is in every pair of "
            "runs.",
            extra_json_schema={"default": [0, 0.25, 0.5, 1]},
        ),
    ] = UNSET
    repeats: Annotated[
        Annotated[int, Meta(ge=1, le=100)] | UnsetType,
        Meta(description="Pairs of runs of each cell.", extra_json_schema={"default": 3}),
    ] = UNSET
    warm_up: Annotated[
        Annotated[int, Meta(ge=0, le=100)] | UnsetType,
        Meta(
            description="Runs of each query before anything is measured.",
            extra_json_schema={"default": 1},
        ),
    ] = UNSET
    longest_run: Annotated[
        str | UnsetType,
        Meta(
            description="A run that takes longer has failed.", extra_json_schema={"default": "10m"}
        ),
    ] = UNSET
    plugin: Annotated[
        bool | UnsetType,
        Meta(description="Whether the plugin measures waits.", extra_json_schema={"default": True}),
    ] = UNSET
