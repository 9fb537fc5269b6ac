"""Declares what ``iqcar analyze --on-spark --json`` writes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class FleetSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the logs were analysed."""

    query_by: Annotated[str, Meta(description="What counts as one query.")]
    impact: Annotated[str, Meta(description="How contributions are measured.")]
    source_usage: Annotated[str, Meta(description="How a source's use of a resource is measured.")]
    critical_path: Annotated[
        bool, Meta(description="Whether only stages on the critical path count.")
    ]


class FleetNotComplete(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A log that was not read completely."""

    path: Annotated[str, Meta(description="Where it is.")]
    status: Annotated[str, Meta(description="failed, truncated, in_progress.")]
    message: Annotated[str, Meta(description="Why.")]


class FleetInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The logs, by how well they were read."""

    found: Annotated[int, Meta(description="Logs, and paths without one.", ge=0)]
    by_status: Annotated[
        dict[str, Annotated[int, Meta(ge=1)]], Meta(description="How many have each status.")
    ]
    not_complete: Annotated[
        list[FleetNotComplete], Meta(description="Those that were not read whole, at most 500.")
    ]


class FleetCut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group that was too large to be analysed at once."""

    applications: Annotated[int, Meta(description="Applications.", ge=0)]
    hosts: Annotated[int, Meta(description="Hosts.", ge=0)]
    tasks: Annotated[int, Meta(description="Tasks.", ge=0)]
    parts: Annotated[int, Meta(description="Parts it was cut into.", ge=0)]
    apart: Annotated[
        int,
        Meta(
            description="Applications that shared a host at some time with one of another part: "
            "what they did to each other is not counted.",
            ge=0,
        ),
    ]
    start_ms: Annotated[
        float | None, Meta(description="When the first began, ms since 1970; null if unknown.")
    ]
    end_ms: Annotated[float | None, Meta(description="When the last ended; null if unknown.")]


class FleetGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Groups of logs that were analysed together."""

    count: Annotated[int, Meta(description="Groups.", ge=0)]
    alone: Annotated[int, Meta(description="Groups of one application.", ge=0)]
    largest: Annotated[int, Meta(description="Applications of the largest group.", ge=0)]
    cut: Annotated[
        list[FleetCut],
        Meta(
            description="Groups that were too large and cut by hours, the largest first, at most "
            "100."
        ),
    ]
    diagnoses: Annotated[
        int, Meta(description="Diagnoses that were made: small groups are diagnosed at once.", ge=0)
    ]


class FleetTotal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All applications together."""

    applications: Annotated[int, Meta(description="Applications.", ge=0)]
    queries: Annotated[int, Meta(description="Queries.", ge=0)]
    tasks: Annotated[int, Meta(description="Tasks.", ge=0)]
    stragglers: Annotated[int, Meta(description="Tasks that were slower than their stage.", ge=0)]
    duration_ms: Annotated[float, Meta(description="Durations of queries.", ge=0)]
    lost_ms: Annotated[float, Meta(description="Elapsed time that queries lost.", ge=0)]
    lost_to_others_ms: Annotated[
        float, Meta(description="The part of it lost to other queries.", ge=0)
    ]
    wasted_ms: Annotated[
        float, Meta(description="Elapsed time of work whose result was not used.", ge=0)
    ]


class FleetResource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Time lost in one resource."""

    resource: Annotated[str, Meta(description="Resource.")]
    lost_ms: Annotated[float, Meta(description="Lost to it.", ge=0)]
    queries: Annotated[int, Meta(description="Queries that lost time to it.", ge=0)]


class FleetHost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Time lost on one host."""

    host: Annotated[str, Meta(description="Host.")]
    lost_ms: Annotated[float, Meta(description="Lost there.", ge=0)]
    slots_lost_ms: Annotated[
        float, Meta(description="The part of it lost to waits for slots and executors.", ge=0)
    ]


class FleetApplication(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An application and what it lost."""

    application_id: Annotated[str, Meta(description="Id.")]
    attempt_id: Annotated[str, Meta(description="Attempt; empty if it has only one.")]
    name: Annotated[str, Meta(description="Name.")]
    user: Annotated[str, Meta(description="User.")]
    queries: Annotated[int, Meta(description="Queries.", ge=0)]
    duration_ms: Annotated[float, Meta(description="Durations of its queries.", ge=0)]
    lost_ms: Annotated[float, Meta(description="Lost time.", ge=0)]
    lost_to_others_ms: Annotated[
        float, Meta(description="Lost to other queries, of whatever application.", ge=0)
    ]
    others_lost_ms: Annotated[
        float, Meta(description="What queries of other applications lost to it.", ge=0)
    ]


class FleetQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query and what it lost."""

    query_id: Annotated[str, Meta(description="Id.")]
    name: Annotated[str, Meta(description="Name.")]
    application_name: Annotated[str, Meta(description="Its application.")]
    duration_ms: Annotated[float | None, Meta(description="How long it ran; null if unknown.")]
    lost_ms: Annotated[float, Meta(description="Lost time.", ge=0)]
    lost_to_others_ms: Annotated[float, Meta(description="Lost to other queries.", ge=0)]
    worst_source: Annotated[
        str, Meta(description="Id of the query that it lost most to; empty if none.")
    ]
    worst_source_ms: Annotated[float, Meta(description="What it lost to that query.", ge=0)]


class FleetSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query that others lost time to."""

    query_id: Annotated[str, Meta(description="Id.")]
    name: Annotated[str, Meta(description="Name.")]
    lost_ms: Annotated[float, Meta(description="What others lost to it.", ge=0)]
    victims: Annotated[int, Meta(description="Queries that lost time to it.", ge=0)]
    resource: Annotated[str, Meta(description="What most was lost to.")]


class FleetPair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query and one that lost time to it."""

    source: Annotated[str, Meta(description="Id of who was in the way.")]
    target: Annotated[str, Meta(description="Id of who lost.")]
    lost_ms: Annotated[float, Meta(description="Lost time.", ge=0)]


class FleetCause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cause of stragglers."""

    cause: Annotated[
        str,
        Meta(
            description="Key of the cause (docs/stragglers.md); empty where nothing explains them."
        ),
    ]
    stragglers: Annotated[int, Meta(description="How many.", ge=0)]
    delay_ms: Annotated[
        float, Meta(description="By how much they were slower than their stage, in all.", ge=0)
    ]


class FleetDoubt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A doubt and how many diagnoses have it."""

    doubt: Annotated[str, Meta(description="A sentence.")]
    diagnoses: Annotated[int, Meta(description="Diagnoses it is said of.", ge=1)]


class FleetSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `iqcar analyze --on-spark --json` writes: a summary of bounded size.

    Durations are milliseconds. Null is unknown, never zero.
    """

    schema_version: Annotated[
        Literal["1"], Meta(description="Changes when a reader of this file would have to change.")
    ]
    iqcar_version: Annotated[str, Meta(description="The version of iqcar that wrote it.")]
    settings: Annotated[FleetSetting, Meta(description="What the user chose.")]
    inputs: Annotated[FleetInput, Meta(description="What became of the logs.")]
    groups: Annotated[
        FleetGroup,
        Meta(
            description="Applications that shared hosts at the same time were diagnosed together."
        ),
    ]
    totals: Annotated[
        FleetTotal | None,
        Meta(description="Sums over all applications; null if none could be analysed."),
    ]
    resources: Annotated[
        list[FleetResource], Meta(description="Lost time by resource, the largest first.")
    ]
    hosts: Annotated[
        list[FleetHost], Meta(description="Lost time by host, the largest first, at most 100.")
    ]
    applications: Annotated[
        list[FleetApplication],
        Meta(description="Applications that lost most to other queries, at most 100."),
    ]
    queries: Annotated[
        list[FleetQuery], Meta(description="Queries that lost most to other queries, at most 100.")
    ]
    sources: Annotated[
        list[FleetSource], Meta(description="Queries that others lost most to, at most 100.")
    ]
    pairs: Annotated[
        list[FleetPair],
        Meta(description="Applications that lost most to another application, at most 100."),
    ]
    causes: Annotated[
        list[FleetCause],
        Meta(description="Stragglers by cause; one with two causes counts in both."),
    ]
    doubts: Annotated[
        list[FleetDoubt], Meta(description="What is doubtful, the most frequent first, at most 40.")
    ]
