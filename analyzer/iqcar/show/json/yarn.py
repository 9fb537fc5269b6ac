"""What a YARN resource manager adds, as JSON: its types, and how it is laid out."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from iqcar.logs.find.resource_manager import YarnApplication
from iqcar.logs.text import redact_text
from iqcar.model.waits.pending import YarnWaits

Ms = Annotated[float, Meta(description="Milliseconds.", ge=0)]
Known = Annotated[str, Meta(description="As the resource manager tells; empty where it does not.")]


class ResultYarnHolder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An application that held containers during a wait."""

    application_id: Known
    name: Known
    user: Known
    queue: Known
    lost_ms: Annotated[float, Meta(ge=0), "Its part of the wait."]


class ResultYarnPending(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wait of an application for its first container: that of its master."""

    application_id: Known
    name: Known
    user: Known
    queue: Known
    state: Known
    has_log: Annotated[bool, "Whether its log is among the inputs."]
    since_ms: Annotated[float, Meta(ge=0), "When it was submitted."]
    until_ms: Annotated[float, Meta(ge=0), "When its master was launched; now, where it waits."]
    wait_ms: Ms
    first_executor_ms: Annotated[float | None, "When its log has its first executor; null without."]
    held: Annotated[
        float | None,
        "Share of the memory of all nodes that others held meanwhile; null "
        "where the nodes do not tell, and for the shortest of very many waits.",
    ]
    holders: Annotated[
        list[ResultYarnHolder],
        "Who held most; with rest_ms and unattributed_ms the parts sum to wait_ms.",
    ]
    rest_ms: Annotated[float, Meta(ge=0), "Part of further holders."]
    unattributed_ms: Annotated[float, Meta(ge=0), "Part that nobody is named for."]


class ResultYarn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a YARN resource manager adds to the logs (--yarn)."""

    url: Annotated[str, "Of the resource manager."]
    pending: Annotated[list[ResultYarnPending], "Waits of 5 s and more, the longest first."]
    waiting: Annotated[int, Meta(ge=0), "Applications that wait and have no log yet."]
    unknown: Annotated[int, Meta(ge=0), "Applications of the logs that it does not know."]
    memory_mb: Annotated[float | None, "Of all nodes that run now, for containers."]
    cores: Annotated[float | None, "The same."]
    nodes: Annotated[float | None, "Nodes that run now."]


def yarn_to_dict(yarn: YarnWaits | None) -> dict[str, Any] | None:
    """Lay out what a resource manager told; None where none was asked."""
    if yarn is None:
        return None
    return {
        "url": yarn.url,
        "pending": [
            {
                **_named(one.application),
                "state": redact_text(one.application.state),
                "has_log": one.app >= 0,
                **{n: getattr(one, n) for n in ("since_ms", "until_ms", "wait_ms")},
                "first_executor_ms": _known(one.first_executor_ms),
                "held": _known(one.held),
                "holders": [
                    {**_named(holder.application), "lost_ms": holder.lost_ms}
                    for holder in one.holders
                ],
                "rest_ms": one.rest_ms,
                "unattributed_ms": one.unattributed_ms,
            }
            for one in yarn.pending
        ],
        "waiting": yarn.waiting,
        "unknown": yarn.unknown,
        **{name: _known(getattr(yarn, name)) for name in ("memory_mb", "cores", "nodes")},
    }


def _named(one: YarnApplication) -> dict[str, str]:
    names = ("application_id", "name", "user", "queue")
    return {name: redact_text(getattr(one, name)) for name in names}


def _known(value: float) -> float | None:
    return value if isfinite(value) else None
