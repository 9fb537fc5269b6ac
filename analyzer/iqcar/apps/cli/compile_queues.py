"""Compiles a plan for the executors of a shared cluster from event logs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from iqcar.apps.cli.command import Result, check_writable, make_folder, write_result
from iqcar.enums import QueryBy
from iqcar.errors import IqcarError, UsageError
from iqcar.rules.queue_files import PlanTarget

HOW_TO_FILE = "HOW_TO.md"


@dataclass(frozen=True)
class ClusterChoice:
    """What a plan for a shared cluster is told besides the logs.

    Attributes
    ----------
    current : FILE
        With --for yarn-…: the scheduler's file that is in force, capacity-scheduler.xml or the
        FairScheduler's allocation file; the plan is an edit of it. Default: queues as
        applications named them, all alike.
    cores : 1..10000000
        With --for yarn-…: cores of the cluster. Default: as many as its applications held at once.
    preemption : SECONDS 0..86400
        With --for yarn-…: time after which it takes executors back from queues that hold more
        than they are guaranteed. Default: it does not.
    """

    current: str = ""
    cores: int | None = None
    preemption: float | None = None


def compile_queues(
    paths: list[str],
    target: PlanTarget,
    choice: ClusterChoice,
    *,
    out: str,
    to_output: bool,
    all_rules: bool,
    force: bool,
) -> Result:
    """Diagnose logs, plan, and write the plan's files; raises IqcarError."""
    from iqcar.apps.cli.reading import diagnosed, working
    from iqcar.replay.queues.queue_plan import (
        FILES,
        QueueQuestion,
        content_of,
        propose_queues,
        queue_result,
    )
    from iqcar.show.json.queues import queues_to_json
    from iqcar.show.terminal.rules import print_queues

    folder = Path(out or str(target))
    check_folder(folder, (FILES[target], HOW_TO_FILE), force)
    current = (_read(choice.current), choice.current) if choice.current else None
    after = math.inf if choice.preemption is None else 1000 * choice.preemption
    found = diagnosed(paths, query_by=QueryBy.SQL, rules=False)
    with working("replaying"):
        plan = propose_queues(
            found.tables, found.graph, QueueQuestion(target, current, choice.cores, after)
        )
    result = queue_result(plan, all_rules=all_rules)
    if not to_output:
        print_queues(result)
    if result.written:
        make_folder(folder)
        write_result(str(folder / FILES[target]), content_of(plan))
        write_result(str(folder / HOW_TO_FILE), _page(result.how_to).encode())
    return Result(json=partial(queues_to_json, result), tables=[found.tables])


def _page(steps: list[str]) -> str:
    lines = ["# How to apply it", "", *(f"    {step}" for step in steps)]
    return "\n".join(lines) + "\n"


def _read(path: str) -> bytes:
    from iqcar.base.files.xml_text import MAX_BYTES

    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise IqcarError(f"cannot be read: {reason}", path, "check the path") from error


def check_folder(folder: Path, names: tuple[str, ...], force: bool) -> None:
    """Check, before anything is written, that all files can be written; raises IqcarError."""
    if folder.is_dir():
        for name in names:
            check_writable(str(folder / name), force)
    elif folder.exists():
        raise UsageError("is a file", str(folder), "name a folder with --out")
    elif not folder.absolute().parent.is_dir():
        raise UsageError("its parent folder does not exist", str(folder), "make it first")
