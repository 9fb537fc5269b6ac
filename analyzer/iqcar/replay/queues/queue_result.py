"""Declares what a plan for a shared cluster says, as it stands in JSON, and lays it out."""

from __future__ import annotations

import difflib
import math
import shlex
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from iqcar.replay.queues.propose import QueueProposal
from iqcar.replay.queues.sides import key_of
from iqcar.rules.queues.queue_setup import PlanTarget
from iqcar.version import __version__

FILES = {
    PlanTarget.YARN_CAPACITY: "capacity-scheduler.xml",
    PlanTarget.YARN_FAIR: "fair-scheduler.xml",
}
"""What is written for each target."""


class QueuedApplication(msgspec.Struct, frozen=True):
    """An application of the cluster."""

    application_id: str
    name: str
    user: str
    role: Annotated[str, Meta(description="victim, holder or other")]
    queue_before: Annotated[str, Meta(description="Path of the queue that it ran in.")]
    queue_after: Annotated[str, Meta(description="Path of the queue that it is to run in.")]
    recorded_ms: Annotated[
        float | None, Meta(description="From its start to its last query's end.")
    ]
    before_ms: Annotated[float | None, Meta(description="The same in the replay of the record.")]
    after_ms: Annotated[float | None, Meta(description="The same in the replay under the plan.")]


class SelfCheck(msgspec.Struct, frozen=True):
    """How far the replay of the recorded run is off."""

    queries: Annotated[int, Meta(description="Queries that it replayed.")]
    median_error_percent: Annotated[float | None, Meta(description="The median query.")]
    worst_error_percent: Annotated[float | None, Meta(description="The worst one.")]


class QueueResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `iqcar rules compile --for` a cluster manager writes."""

    schema_version: Annotated[str, Meta(description="Changes when readers would have to.")]
    iqcar_version: Annotated[str, Meta(description="The version of iqcar that wrote it.")]
    target: Annotated[str, Meta(description="What it is for, as in --for.")]
    cores: Annotated[int, Meta(description="Of the cluster that was replayed.")]
    cores_given: Annotated[bool, Meta(description="Whether --cores said so.")]
    queues_given: Annotated[bool, Meta(description="Whether --current said how queues were.")]
    lost_ms: Annotated[float, Meta(description="Elapsed time that queries lost to executors.")]
    outlook: Annotated[
        str | None,
        Meta(description="helps, unsure, no-gain or harms; null where nothing has to change."),
    ]
    written: Annotated[bool, Meta(description="Whether the plan is written: not if it harms.")]
    expected: Annotated[
        dict[str, Any] | None, Meta(description="The predicted effect, as that of a rule.")
    ]
    self_check: SelfCheck
    applications: list[QueuedApplication]
    diff: Annotated[str, Meta(description="Unified diff of the scheduler's file.")]
    how_to: Annotated[list[str], Meta(description="What to do, a step a line.")]
    assumptions: Annotated[list[str], Meta(description="What the prediction rests on.")]


def queue_result(found: QueueProposal, *, all_rules: bool = False) -> QueueResult:
    """Lay a proposal out.

    all_rules: Whether a plan that is predicted to harm is written, too.
    """
    chosen = found.chosen
    written = chosen is not None and (all_rules or not found.rejected)
    off = np.abs(found.errors[np.isfinite(found.errors)])
    return QueueResult(
        schema_version="2", iqcar_version=__version__, target=found.asked.target.value,
        cores=found.replays.cores, cores_given=found.asked.cores is not None,
        queues_given=found.asked.current is not None, lost_ms=round(found.sides.lost_ms, 3),
        outlook=None if chosen is None else chosen.expected.outlook, written=written,
        expected=None if chosen is None else chosen.expected.to_dict(),
        self_check=SelfCheck(
            len(off),
            round(100 * float(np.median(off)), 3) if len(off) else None,
            round(100 * float(off.max()), 3) if len(off) else None,
        ),
        applications=_applications(found),
        diff=_diff(found) if written else "", how_to=_how_to(found) if written else [],
        assumptions=_assumptions(found),
    )  # fmt: skip


def content_of(found: QueueProposal) -> bytes:
    """Return the scheduler's file of a plan; empty without one."""
    return found.chosen.draft.content if found.chosen else b""


def _applications(found: QueueProposal) -> list[QueuedApplication]:
    made = []
    for one in found.replays.tenants:
        key = key_of(one)
        role = "victim" if key in found.sides.victims else "other"
        role = "holder" if key in found.sides.holders else role
        end = found.tables.queries["end_ms"].to_numpy(np.float64)
        after = found.chosen.after.end_ms if found.chosen else np.full(len(end), np.nan)
        start = float(found.tables.applications["start_ms"].iloc[one.app])
        mine = np.flatnonzero((found.tables.queries["app"] == one.app).to_numpy())
        recorded, before, then = (
            _number(float(each[mine].max(initial=-np.inf)) - start)
            for each in (end, found.before.end_ms, after)
        )
        made.append(
            QueuedApplication(
                application_id=one.application_id, name=one.name, user=one.user, role=role,
                queue_before=found.queue_before(one), queue_after=found.queue_after(one),
                recorded_ms=recorded, before_ms=before, after_ms=then,
            )
        )  # fmt: skip
    return made


def _number(value: float) -> float | None:
    return round(float(value), 3) if math.isfinite(value) else None


def _diff(found: QueueProposal) -> str:
    if found.chosen is None:
        return ""
    name = FILES[found.asked.target]
    before, after = (
        content.decode("utf-8", "replace").splitlines(keepends=True)
        for content in (found.before_content, found.chosen.draft.content)
    )
    return "".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))


def _submit_lines(found: QueueProposal) -> list[str]:
    """A comment and an option of ``spark-submit`` for each application that moves."""
    lines: list[str] = []
    for one in found.replays.tenants:
        if (queue := found.queue_after(one)) != found.queue_before(one):
            # YARN's clients name a queue by its path.
            option = f"--conf {shlex.quote(f'spark.yarn.queue={queue}')}"
            pair = [f"# {_plain(one.name or one.application_id)} of {_plain(one.user)}", option]
            lines += pair if pair[0] not in lines else []
    return lines


def _plain(text: str) -> str:
    """One line: names in logs are not ours."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _how_to(found: QueueProposal) -> list[str]:
    name = FILES[found.asked.target]
    if found.asked.target is PlanTarget.YARN_CAPACITY:
        steps = [f"Put {name} where the ResourceManager reads it ($HADOOP_CONF_DIR)."]
    else:
        steps = [
            f"Put {name} where yarn.scheduler.fair.allocation.file says; the ResourceManager reads "
            "it again within 10 s, or at once:",
        ]
    steps.append("yarn rmadmin -refreshQueues")
    lines = _submit_lines(found)
    if lines:
        steps += ["From the next start on, submit with these options of spark-submit:", *lines]
    return steps


def _assumptions(found: QueueProposal) -> list[str]:
    said = [found.replays.assumptions]
    if found.asked.cores is None:
        said.append(
            f"The cluster has {found.replays.cores} cores: as many as its applications held at "
            "once at most (--cores)."
        )
    if found.asked.current is None:
        said.append(
            "All queues that applications named were guaranteed as much, with the scheduler's "
            "defaults (--current)."
        )
    if math.isinf(found.asked.preempts_after_ms):
        said.append("No executor is taken back from who has it (--preemption).")
    return said
