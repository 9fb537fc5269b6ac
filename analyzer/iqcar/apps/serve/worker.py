"""Works on logs in a process of its own: they are untrusted, and its memory is given back.

The server starts ``main`` and writes lines of JSON to its standard input: a :class:`Task`, and
where that asked what if, more such tasks about the same logs. Lines of JSON come back: how far it
is, and at last that it is done or why not; of an application that is followed, each window. Results
are files. It ends when its standard input does, so it does not outlive the server.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any

from iqcar.base.units import size
from iqcar.diagnosis import Settings
from iqcar.enums import QueryBy
from iqcar.errors import IqcarError, UsageError, explain_bug
from iqcar.logs.find.layouts import EventLog, LogPart, ToldByServer

if TYPE_CHECKING:
    from iqcar.diagnosis import WhatIfs
    from iqcar.logs import ReadProgress
    from iqcar.tables import Tables

ASSETS, HOME = "/static/", "/"
"""Where reports find Plotly's program, and the list that they lead back to."""

TELL_S = 0.2
"""Seconds between two reports of progress (0.2): as often as a page asks for it."""

WINDOW_MS, EVERY_MS = 60_000.0, 2_000.0
"""Of an application that is followed, as `iqcar live` has them by default."""

MEMORY_SHARE = 0.75
"""Share of the machine's memory that one process may take: more would end others, too."""

ANSWER_BYTES = 2 << 30
"""Memory that answering one question may take beyond what its process holds (2 GiB): three times
what the largest that is answered takes."""

_NEEDED = ("iqcar.pipeline", "iqcar.show.html", "iqcar.show.json.analyze", "iqcar.apps.serve.cache")
"""What an analysis imports, as only this process needs it."""


@dataclass(frozen=True)
class Task:
    """What to do with logs, how, and where the files go.

    The first ``before`` logs are compared with the others; with 0 all are analysed together. With
    ``changes`` a what-if question is answered, as
    :func:`iqcar.replay.whatif.question.parse_request` takes it; ``model`` names the state of the
    logs, as a process can answer further questions about it. With ``follow``, a log's file or the
    folder of a rolling one, that is followed, and no link out of the folders ``within``. What is
    ``unasked`` gives way to all other processes.
    """

    keys: tuple[str, ...] = ()
    logs: tuple[EventLog, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    folder: str = ""
    before: int = 0
    unasked: bool = False
    changes: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    follow: str = ""
    within: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What the task is, as `ps` and `top` show it."""
        return "follow" if self.follow else "question" if self.changes else "analysis"

    def to_line(self) -> bytes:
        """Write it as one line; names that are no UTF-8 pass, as Python's JSON escapes them."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Task:
        """Read what :meth:`to_line` wrote."""
        task = json.loads(line)
        logs = tuple(map(_log, task["logs"]))
        plain = {name: tuple(task[name]) for name in ("keys", "within")}
        return cls(**{**task, **plain, "logs": logs})


def preload() -> None:
    """Import what an analysis needs; of Plotly most is imported when it is used."""
    from plotly.graph_objects import Bar, Box, Figure, Heatmap, Sankey, Scatter

    for module in _NEEDED:
        import_module(module)
    Figure([Bar(), Box(), Heatmap(), Sankey(), Scatter()]).to_json()


def main() -> None:
    """Do the task that comes in through standard input, and tell how it went."""
    lines: Queue[bytes] = Queue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    outgoing, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    bound_memory()
    task = Task.from_line(lines.get())
    with suppress(OSError):
        Path("/proc/self/comm").write_text(f"iqcar-{task.kind}")
    if task.unasked:
        os.nice(19)

    def say(line: bytes) -> None:
        try:
            outgoing.buffer.write(line + b"\n")
            outgoing.buffer.flush()
        except (OSError, ValueError):
            os._exit(1)  # the server has gone

    def tell(**news: Any) -> None:
        say(json.dumps(news).encode())

    def tell_problem(failed: str = "", **_: Any) -> None:
        if failed:
            tell(problem=failed)

    if task.follow:
        return _trying(lambda: follow(task, say), tell_problem)
    if not task.changes:
        return _trying(lambda: run(task, tell), tell)
    asked: list[WhatIfs] = []

    def answer(now: Task) -> None:
        if not asked:
            asked.append(make_model(now, tell))
            bound_answer()
        answer_question(asked[0], now, tell)

    while True:
        _trying(lambda: answer(task), tell)  # noqa: B023 (called at once)
        task = Task.from_line(lines.get())


def _listen(lines: Queue[bytes]) -> None:
    """Take lines in; end this process when there are no more, whatever it is doing."""
    rest = b""
    with suppress(OSError):
        while more := os.read(0, 1 << 16):  # what sys.stdin holds is locked when the process ends
            *whole, rest = (rest + more).split(b"\n")
            for line in whole:
                lines.put(line)
    os._exit(1)


def _trying(work: Callable[[], object], tell: Callable[..., None]) -> None:
    """Work, and tell that it is done or why it could not be."""
    try:
        work()
    except UsageError as error:
        tell(failed=str(error), wrong=True)
    except IqcarError as error:
        tell(failed=str(error))
    except MemoryError:
        tell(failed=f"it takes more than {size(ANSWER_BYTES)} of memory: ask for less")
    except Exception as error:
        tell(failed=f"the analysis {explain_bug(error)}")
    else:
        tell(done=True)


def run(task: Task, tell: Callable[..., None]) -> None:
    """Read the logs, diagnose or compare, and write the files of a cache entry.

    ``tell`` is called with ``phase`` and ``share``: what is being done, and how far it is (0 to 1).
    Raises IqcarError if nothing in the logs can be analysed.
    """
    from iqcar.apps.serve.cache import summarize, write_entry
    from iqcar.pipeline import diagnose
    from iqcar.show.html import page_policy, render_page
    from iqcar.show.json.analyze import json_chunks

    if task.before:
        return _compare(task, tell)
    tables = read_logs(task, task.logs, tell)
    tell(phase="analysing", share=0.0)
    diagnosis = diagnose(tables, **task.settings)
    tell(phase="writing", share=0.0)
    page = render_page(diagnosis, assets=ASSETS, home=HOME).encode()
    summary = summarize(diagnosis, task.keys, settings_text(task.settings), page_policy(ASSETS))
    write_entry(Path(task.folder), json_chunks(diagnosis), page, summary)


def _compare(task: Task, tell: Callable[..., None]) -> None:
    """Read both sets, compare them, and write the files of a cache entry."""
    from iqcar.apps.serve.cache import Summary, write_entry
    from iqcar.comparison.comparison import compare
    from iqcar.show.html.compare import comparison_policy, render_comparison
    from iqcar.show.json.compare import compare_to_json

    before = read_logs(task, task.logs[: task.before], tell)
    after = read_logs(task, task.logs[task.before :], tell)
    tell(phase="analysing", share=0.0)
    compared = compare(before, after)
    tell(phase="writing", share=0.0)
    page = render_comparison(compared, home=HOME).encode("utf-8", "replace")
    about = comparison_text(task.settings, task.keys, task.before)
    summary = Summary(keys=(), settings=about, policy=comparison_policy())
    write_entry(Path(task.folder), [compare_to_json(compared)], page, summary)


def make_model(task: Task, tell: Callable[..., None]) -> WhatIfs:
    """Make the model that answers what-if questions about logs."""
    from iqcar.diagnosis import WhatIfs
    from iqcar.pipeline import diagnose

    tables = read_logs(task, task.logs, tell)
    tell(phase="analysing", share=0.0)
    asked = WhatIfs(diagnose(tables, **task.settings, rules=False))
    tell(phase="fitting what tasks need", share=0.0)
    for member in asked.model.members:
        asked.model.base(member)
    return asked


def answer_question(asked: WhatIfs, task: Task, tell: Callable[..., None]) -> None:
    """Answer a question as JSON and as a part of a page, the files of a cache entry."""
    from iqcar.apps.serve.cache import Summary, write_entry
    from iqcar.replay.whatif.question import parse_request
    from iqcar.show.html.whatif import answer_html, plan_html, removal_blame_html
    from iqcar.show.json.whatif import whatif_to_json

    tell(phase="replaying", share=0.0)
    wanted = parse_request(**task.changes)
    found = asked.answer(wanted.question) if wanted.question else None
    planned = asked.plan(**wanted.plan) if wanted.plan else None
    blamed = asked.blame_by_removal(wanted.blame) if wanted.blame else None
    parts = [
        answer_html(found, level=2) if found else "",
        plan_html(planned, level=2) if planned else "",
        removal_blame_html(blamed, level=2) if blamed else "",
    ]
    summary = Summary(keys=(), settings=json.dumps(task.changes, sort_keys=True), policy="")
    page = "".join(parts).encode("utf-8", "replace")
    write_entry(Path(task.folder), [whatif_to_json(found, planned, blamed)], page, summary)


def follow(task: Task, say: Callable[[bytes], None]) -> None:
    """Say each window of an application as `iqcar live --json` does, until it ends."""
    from iqcar.live.watch import Watch
    from iqcar.show.json.live import window_to_json

    settings = Settings(
        QueryBy(str(task.settings["query_by"])),
        bool(task.settings["critical_path"]),
        int(task.settings["top"]),
    )
    watch = Watch(task.follow, settings, WINDOW_MS, list(task.within))
    while True:
        watch.read()
        if (window := watch.window()) is not None:
            say(window_to_json(window, watch.state).rstrip(b"\n"))
        if watch.over:
            return
        time.sleep(EVERY_MS / 1e3)


def read_logs(task: Task, logs: tuple[EventLog, ...], tell: Callable[..., None]) -> Tables:
    """Read logs, and tell how far it is; raises IqcarError if there is nothing to analyse."""
    from iqcar.pipeline import read
    from iqcar.tables import texts

    told_at = 0.0

    def show(progress: ReadProgress) -> None:
        nonlocal told_at
        if time.monotonic() - told_at > TELL_S:
            told_at = time.monotonic()
            tell(phase="reading", share=progress.read_bytes / max(progress.total_bytes, 1))

    tell(phase="reading", share=0.0)
    query_by = task.settings.get("query_by", QueryBy.SQL)
    tables = read(logs, query_by=query_by, processes=1, progress=show)
    if len(tables.applications) == 0:
        messages = texts(tables.inputs, "message")
        raise IqcarError(messages[0].rstrip(".") if messages else "no event log to analyse")
    return tables


def settings_text(settings: dict[str, Any]) -> str:
    """Write settings as text that is the same for the same settings."""
    return json.dumps({name: str(value) for name, value in settings.items()}, sort_keys=True)


def comparison_text(settings: dict[str, Any], keys: Sequence[str], before: int) -> str:
    """Write the settings of a comparison as text: which of the applications it is about, too."""
    sides = sorted(keys[:before]), sorted(keys[before:])
    return json.dumps([settings_text(settings), *sides])


def bound_memory() -> None:
    """Let this process take a share of the machine's memory at most, where the system can."""
    pages, each = (os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
    _limit(int(pages * each * MEMORY_SHARE))


def bound_answer() -> None:
    """Let this process take :data:`ANSWER_BYTES` more than it holds now, where the system can."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text("ascii", "replace").splitlines():
            if line.startswith("VmData:"):
                _limit(int(line.split()[1]) * 1024 + ANSWER_BYTES)


def _limit(most: int) -> None:
    if sys.platform != "linux":  # elsewhere the limit is of something else
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _log(fields: dict[str, Any]) -> EventLog:
    told = ToldByServer(*fields["told"]) if fields["told"] else None
    return EventLog(**{**fields, "parts": tuple(map(_part, fields["parts"])), "told": told})


def _part(fields: dict[str, Any]) -> LogPart:
    return LogPart(**{**fields, "within": tuple(fields["within"])})
