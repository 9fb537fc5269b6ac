"""Declares what the result says of a query's time in the driver."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Time = Annotated[float, Meta(ge=0)]


class ResultDriverWork(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the driver did in a part of that time."""

    part: Annotated[
        Literal["before_first_job", "between_jobs", "after_last_task"],
        Meta(description="When, by the query's stages."),
    ]
    work: Annotated[
        Literal[
            "analysis", "optimization", "planning", "scheduling", "compiling",
            "listing", "broadcast", "commit", "other",
        ],
        Meta(description="What it did; other where that is not recorded."),
    ]  # fmt: skip
    time_ms: Annotated[float, Meta(description="How long.", ge=0)]
    files: Annotated[
        Time | None, Meta(description="Files that it listed or committed; null if not recorded.")
    ]
    evidence: Annotated[
        Literal["measured", "reported", "estimated"], Meta(description="How that is known.")
    ]


class ResultDriver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Time in which no stage of a SQL query ran or waited for slots; null where not recorded."""

    ms: Annotated[Time | None, Meta(description="All of it: the sum of the three parts.")]
    before_first_job_ms: Annotated[
        Time | None, Meta(description="From its start to its first stage.")
    ]
    between_jobs_ms: Annotated[Time | None, Meta(description="Between two of its stages.")]
    after_last_task_ms: Annotated[
        Time | None, Meta(description="From the end of its last task to its end.")
    ]
    planned_before_ms: Annotated[
        Time | None,
        Meta(description="Planning before its start, no part of its duration; by the plugin."),
    ]
    work: Annotated[
        list[ResultDriverWork], Meta(description="What it did; sums to each part that is known.")
    ]
