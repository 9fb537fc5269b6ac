"""What a YARN resource manager adds, as JSON: its types, and how it is laid out."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from iqcar.logs.text import redact_text
from iqcar.model.waits.pending import YarnWaits
from iqcar.tables.yarn_told import YarnApplication

Ms = Annotated[float, Meta(description="Milliseconds.", ge=0)]
Known = Annotated[str, Meta(description="As the resource manager tells; empty where it does not.")]


class ResultYarnHolder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An application that held containers during a wait."""

    application_id: Known
    name: Known
    user: Known
    queue: Known
    lost_ms: Annotated[float, Meta(description="Its part of the wait.", ge=0)]


class ResultYarnPending(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wait of an application for its first container: that of its master."""

    application_id: Known
    name: Known
    user: Known
    queue: Known
    state: Known
    has_log: Annotated[bool, Meta(description="Whether its log is among the inputs.")]
    since_ms: Annotated[float, Meta(description="When it was submitted.", ge=0)]
    until_ms: Annotated[
        float, Meta(description="When its master was launched; now, where it waits.", ge=0)
    ]
    wait_ms: Ms
    first_executor_ms: Annotated[
        float | None, Meta(description="When its log has its first executor; null without.")
    ]
    held: Annotated[
        float | None,
        Meta(
            description="Share of the memory of all nodes that others held meanwhile; null "
            "where the nodes do not tell, and for the shortest of very many waits."
        ),
    ]
    holders: Annotated[
        list[ResultYarnHolder],
        Meta(
            description="Who held most; with rest_ms and unattributed_ms the parts sum to wait_ms."
        ),
    ]
    rest_ms: Annotated[float, Meta(description="Part of further holders.", ge=0)]
    unattributed_ms: Annotated[float, Meta(description="Part that nobody is named for.", ge=0)]


class ResultYarnNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node that runs."""

    host: Known
    memory_mb: Annotated[float | None, Meta(description="For containers.")]
    cores: Annotated[float | None, Meta(description="For containers.")]
    labels: Annotated[list[str], Meta(description="Node labels.")]


class ResultYarnQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A queue of the capacity scheduler; shares of the cluster in per cent."""

    path: Known
    capacity: Annotated[float | None, Meta(description="Guaranteed.")]
    most: Annotated[float | None, Meta(description="At most.")]
    used: Annotated[float | None, Meta(description="In use now.")]


class ResultYarn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a YARN resource manager adds to the logs (--yarn)."""

    url: Annotated[str, Meta(description="Of the resource manager.")]
    pending: Annotated[
        list[ResultYarnPending], Meta(description="Waits of 5 s and more, the longest first.")
    ]
    waiting: Annotated[int, Meta(description="Applications that wait and have no log yet.", ge=0)]
    unknown: Annotated[
        int, Meta(description="Applications of the logs that it does not know.", ge=0)
    ]
    nodes: Annotated[list[ResultYarnNode], Meta(description="Nodes that run now.")]
    queues: Annotated[
        list[ResultYarnQueue],
        Meta(description="Parents before children; empty for other schedulers."),
    ]


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
        "nodes": [
            {
                "host": redact_text(node.host),
                "memory_mb": _known(node.memory_mb),
                "cores": _known(node.cores),
                "labels": [redact_text(label) for label in node.labels],
            }
            for node in yarn.nodes
        ],
        "queues": [
            {
                "path": redact_text(queue.path),
                **{n: _known(getattr(queue, n)) for n in ("capacity", "most", "used")},
            }
            for queue in yarn.queues
        ],
    }


def _named(one: YarnApplication) -> dict[str, str]:
    names = ("application_id", "name", "user", "queue")
    return {name: redact_text(getattr(one, name)) for name in names}


def _known(value: float) -> float | None:
    return value if isfinite(value) else None
