"""Declare the JSON objects of the API, for answers, checks and documentation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from iqcar.apps.serve.analyses import State
from iqcar.apps.serve.applications import neighbours_of
from iqcar.apps.serve.result_summary import ApplicationLoss, FirstFinding
from iqcar.apps.serve.selection import Page
from iqcar.enums import InputStatus

if TYPE_CHECKING:
    from iqcar.apps.serve.applications import Application
    from iqcar.apps.serve.service import AnalysisWork, ComparisonWork, Service, Work

Key = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{24}$",
        description="Key of an application; made from the place of its log, it stays the same when "
        "the log grows and when Spark takes `.inprogress` off its name.",
    ),
]
AnalysisId = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{32}$",
        description="Names an analysis of certain applications with their logs as they were.",
    ),
]
Ms = Annotated[float | None, Meta(description="In ms; null is unknown, never zero.")]
Moment = Annotated[float | None, Meta(description="In ms since the epoch; null is unknown.")]


class Found(msgspec.Struct, frozen=True):
    """What the last analysis of an application found, in short."""

    grown: Annotated[
        bool, Meta(description="Whether the log has grown since, so that this may be out of date.")
    ]
    queries: Annotated[int, Meta(description="Queries found.")]
    lost_ms: Annotated[float, Meta(description="Time that its queries lost, in ms.")]
    lost_to_others_ms: Annotated[
        float, Meta(description="Time that its queries lost to other queries, in ms.")
    ]
    worst_query_id: Annotated[
        str | None, Meta(description="The query that lost most to others; null if none lost any.")
    ]
    worst_name: Annotated[str | None, Meta(description="Its name.")]
    worst_lost_ms: Annotated[float | None, Meta(description="What it lost, in ms.")]
    worst_low_ms: Annotated[
        float | None,
        Meta(
            description="Lower end of the range of what it lost to others, in ms; null where no "
            "replay tells."
        ),
    ]
    worst_high_ms: Annotated[float | None, Meta(description="Upper end of that range, in ms.")]
    first_finding: Annotated[
        FirstFinding | None,
        Meta(description="What would save most time; null if nothing would."),
    ]


class ApplicationRow(msgspec.Struct, frozen=True):
    """An application as the list shows it, known from the first and last lines of its log."""

    key: Key
    name: Annotated[str, Meta(description="Its name; the log's where it gives none.")]
    application_id: Annotated[str, Meta(description="As Spark wrote it; empty if not recorded.")]
    attempt_id: Annotated[str, Meta(description="Attempt; empty if it has only one.")]
    user: Annotated[str, Meta(description="User that ran it; empty if not recorded.")]
    spark_version: Annotated[str, Meta(description="Empty if not recorded.")]
    path: Annotated[str, Meta(description="Where its log is.")]
    status: Annotated[
        InputStatus | None,
        Meta(description="State of the log; null while its first lines were not read yet."),
    ]
    message: Annotated[
        str, Meta(description="Why it cannot be read, or what is doubtful; empty if nothing.")
    ]
    size_bytes: Annotated[int, Meta(description="Stored size of the log; 0 if not known.")]
    start_ms: Moment
    end_ms: Moment
    duration_ms: Ms
    found: Annotated[
        Found | None, Meta(description="What analysing it alone found; null before that.")
    ]
    lost: Annotated[
        ApplicationLoss | None,
        Meta(
            description="What it lost and to whom, as the newest result about most applications "
            "with it tells; null before any."
        ),
    ]


class ApplicationList(msgspec.Struct, frozen=True):
    """One page of the list."""

    applications: list[ApplicationRow]
    page: Annotated[int, Meta(description="Number of this page, from 1.")]
    pages: Annotated[int, Meta(description="Number of pages, at least 1.")]
    chosen: Annotated[int, Meta(description="Applications that match, on all pages.")]
    total: Annotated[int, Meta(description="Applications in all.")]
    unread: Annotated[
        int,
        Meta(
            description="Applications whose first lines are still to be read; at least 1 until the "
            "places were looked through once."
        ),
    ]
    left_out: Annotated[int, Meta(description="Logs that are not listed: there are too many.")]
    unanswered: Annotated[
        list[str],
        Meta(description="Places that have not answered yet: what they have is old, or missing."),
    ]


class NeighbourRow(msgspec.Struct, frozen=True):
    """An application that ran at the same time on some of the same hosts."""

    key: Key
    name: str
    overlap_ms: Annotated[float, Meta(description="Time that both ran, in ms.")]
    hosts: Annotated[list[str], Meta(description="Hosts known to have run both.")]


class HowFar(msgspec.Struct, frozen=True, kw_only=True):
    """How far an analysis or a comparison is."""

    state: Annotated[
        State | None,
        Meta(description="Null: not asked for. " + " ".join(f"{s}: {s.sentence}" for s in State)),
    ]
    waiting_before: Annotated[int, Meta(description="Analyses that wait before it.")]
    phase: Annotated[
        str, Meta(description="What is being done: reading, analysing or writing; or empty.")
    ]
    share: Annotated[
        float, Meta(ge=0, le=1, description="How far the phase is; of a comparison, of one set.")
    ]
    running_ms: Annotated[float, Meta(description="Time since it began, in ms.")]
    message: Annotated[str, Meta(description="Why it failed; empty if it did not.")]
    grown: Annotated[
        bool,
        Meta(
            description="Whether there is a result, but of an earlier state of a log: "
            "it has grown since, ask again."
        ),
    ]
    address: Annotated[str, Meta(description="Path of its page.")]


class Progress(HowFar, frozen=True, kw_only=True):
    """How far an analysis is."""

    id: AnalysisId
    applications: Annotated[list[Key], Meta(description="Analysed together.")]


class ComparisonProgress(HowFar, frozen=True, kw_only=True):
    """How far a comparison is."""

    before: Annotated[list[Key], Meta(description="Applications before.")]
    after: Annotated[list[Key], Meta(description="Applications after.")]


class ApplicationAbout(msgspec.Struct, frozen=True):
    """An application, how far its analysis is, and what ran beside it."""

    application: ApplicationRow
    progress: Progress
    neighbours: Annotated[
        list[NeighbourRow],
        Meta(description="The longest beside it first; complete only once all are analysed."),
    ]


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be analysed together."""

    SAYS: ClassVar[str] = "what to analyse"

    applications: Annotated[list[Key], Meta(min_length=1, max_length=32)]


class Together(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which applications a request is about: its query parameters."""

    app: Annotated[
        list[Key],
        Meta(min_length=1, max_length=32, description="Key of an application, once for each."),
    ]


class Sets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which applications are compared: those before with those after."""

    SAYS: ClassVar[str] = "what to compare"

    before: Annotated[
        list[Key],
        Meta(min_length=1, max_length=32, description="Key of an application before, each once."),
    ]
    after: Annotated[
        list[Key],
        Meta(min_length=1, max_length=32, description="Key of an application after, each once."),
    ]


def comparison_progress(compared: ComparisonWork, service: Service) -> ComparisonProgress:
    """Lay out how far a comparison is."""
    return ComparisonProgress(
        before=[one.key for one in compared.before],
        after=[one.key for one in compared.after],
        address=compared.address,
        **_how_far(compared, service),
    )


def question_progress(asked: Work, service: Service, address: str = "/whatif") -> HowFar:
    """Lay out how far the answer to a question is."""
    return HowFar(address=address, **_how_far(asked, service))


def _how_far(work: Work, service: Service) -> dict[str, Any]:
    analysis = work.analysis
    return {
        "state": work.state,
        "waiting_before": service.analyses.place(work.digest),
        "phase": analysis.phase if analysis else "",
        "share": analysis.share if analysis else 0.0,
        "running_ms": analysis.running_ms if analysis else 0.0,
        "message": analysis.message if analysis else "",
        "grown": work.grown,
    }


def row_of(one: Application) -> ApplicationRow:
    """Lay an application out as a row."""
    peek, summary = one.peek, one.summary
    return ApplicationRow(
        key=one.key,
        name=one.name,
        application_id=one.application_id,
        attempt_id=peek.attempt_id if peek else "",
        user=peek.user if peek else "",
        spark_version=peek.spark_version if peek else "",
        path=one.path,
        status=peek.status if peek else None,
        message=peek.message if peek else "",
        size_bytes=one.size_bytes,
        start_ms=one.start_ms,
        end_ms=one.end_ms,
        duration_ms=one.duration_ms,
        found=Found(
            grown=not one.summary_is_current,
            queries=summary.queries,
            lost_ms=summary.lost_ms,
            lost_to_others_ms=summary.lost_to_others_ms,
            worst_query_id=summary.worst_query_id,
            worst_name=summary.worst_name,
            worst_lost_ms=summary.worst_lost_ms,
            worst_low_ms=summary.worst_low_ms,
            worst_high_ms=summary.worst_high_ms,
            first_finding=summary.first_finding,
        )
        if summary
        else None,
        lost=one.loss,
    )


def list_of(page: Page, service: Service) -> ApplicationList:
    """Lay a page of the list out."""
    listing = service.listing
    return ApplicationList(
        applications=[row_of(one) for one in page.applications], page=page.number, pages=page.pages,
        chosen=page.chosen, total=page.total, unread=listing.unread, left_out=listing.left_out,
        unanswered=listing.unanswered,
    )  # fmt: skip


def progress_of(standing: AnalysisWork, service: Service) -> Progress:
    """Lay out how far an analysis is."""
    return Progress(
        id=standing.digest,
        applications=list(standing.keys),
        address=standing.address,
        **_how_far(standing, service),
    )


def about(one: Application, service: Service, others: Iterable[Application]) -> ApplicationAbout:
    """Lay out what is known about one application."""
    neighbours = [
        NeighbourRow(each.application.key, each.application.name, each.overlap_ms, list(each.hosts))
        for each in neighbours_of(one, others)
    ]
    return ApplicationAbout(
        row_of(one), progress_of(service.standing([one.key]), service), neighbours
    )
