"""Says what failed before anything else: queries, executors that were lost, attempts in vain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from iqcar.base.units import cut, duration, percent, printable
from iqcar.enums import FindingKind, InputStatus, QueryStatus, WasteCause
from iqcar.logs.text import compiled, encoded, family
from iqcar.rules.actions import Remedy
from iqcar.rules.vocabulary import RELEASED, STOPPED, error_key, errors
from iqcar.say.blamed import QueryNames
from iqcar.say.finding import About, Finding
from iqcar.say.sections import WastedLine, wasted_lines
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Ints

MANY_FAILED = 1 / 3
"""Share of an application's attempts that failed from which on it is said though all went well."""
MOST_ERROR = 120
"""Characters of an error in the headline, which is one line."""
LEAST_ENDED = 0.5
"""Share of the begun stages' tasks that must have ended before anything is said of a query that has
not: what is left may be as slow as it likes."""
_HARMLESS_UNLESS_FELT = ("executor-lost", "executor-lost-manager", "preempted", "unknown")
"""Kinds of lost executors that a cluster also takes away when nobody needs them."""
_EXIT = compiled(r"(?i)(?:exit|exited with)[ _]?(code|status)(?: is)?[:= (]{0,3}(-?[0-9]{1,10})")
_AT_ONCE_MS = 5_000.0
"""Executors lost within five seconds went together, as with their node."""
LATER = "later for it"
_LOST_CAUSES = (WasteCause.EXECUTOR_LOST, WasteCause.PREEMPTED, WasteCause.FETCH_FAILED)


def failed_findings(about: About) -> Iterator[Finding]:
    """Say which queries failed and why, then what else failed; equal errors are one finding."""
    tables = about.tables
    groups: dict[tuple[str, str], list[int]] = {}
    said = texts(tables.queries, "error")
    for row in np.flatnonzero(tables.queries["failed"].to_numpy(bool)).tolist():
        groups.setdefault((error_key(said[row]), family(said[row])), []).append(row)
    found = [_failed(about, rows) for rows in groups.values()]
    yield from sorted(found, key=lambda one: (_is_stopped(tables, one), -len(one.queries)))
    told = {int(app) for app in tables.queries["app"][tables.queries["failed"].to_numpy(bool)]}
    for app in range(len(tables.applications)):
        if app not in told:
            yield from _trouble(about, app)


def is_told_as_failure(about: About, line: WastedLine) -> bool:
    """Whether work was wasted for what a finding of failure says already."""
    tables = about.tables
    if bool(tables.queries["failed"].iloc[line.query]):
        return True
    app = int(tables.queries["app"].iloc[line.query])
    if line.cause in _LOST_CAUSES:
        return len(lost_executors(about, app)) > 0
    return line.cause is WasteCause.TASK_FAILED and _is_much(tables, app)


def failed_headline(tables: Tables, findings: Sequence[Finding]) -> str:
    """Say what failed, as a headline of a line; empty where nothing did."""
    first = next((one for one in findings if one.kind is FindingKind.FAILED), None)
    if first is None:
        return ""
    rows = list(first.queries)
    if not rows or not tables.queries["failed"].iloc[rows].any():
        said = first.sentence.rstrip(".").split("; ")
        return f"{'; '.join([said[0], *(one for one in said[1:] if one.endswith(LATER))])}."
    names = QueryNames(tables.queries, tables.applications)
    error = (
        printable(cut(texts(tables.queries, "error")[rows[0]], MOST_ERROR)) or "nothing says why"
    )
    before = _before(tables, rows)
    every = int(tables.queries["failed"].sum())
    who = names.called(rows[0])
    if every > 1:
        who = f"{every:,} of {len(tables.queries):,} queries, {who} among them"
    stopped = _is_stopped(tables, first) and not before
    word = QueryStatus.CANCELLED if stopped else QueryStatus.FAILED
    return f"{str(word).upper()}: {who}: {error.rstrip('.')}."


def unfinished(tables: Tables) -> Flags:
    """Whether of each query so little had ended that nothing can be said of it; (n_queries,)."""
    queries, stages, tasks = tables.queries, tables.stages, tables.tasks
    of_stage, of_task = (frame["query"].to_numpy(np.int64) for frame in (stages, tasks))
    declared = np.maximum(stages["declared_tasks"].to_numpy(np.float64), 0.0)
    done = (tasks["status"] == "success").to_numpy(bool) & (of_task >= 0)
    size = len(queries)
    planned = np.bincount(of_stage[of_stage >= 0], declared[of_stage >= 0], size)
    ended = np.bincount(of_task[done], minlength=size)
    open_: Flags = ~queries["ended"].to_numpy(bool) & ~queries["failed"].to_numpy(bool)
    return open_ & (ended < LEAST_ENDED * planned)


def unknown_headline(tables: Tables) -> str:
    """Say what the logs cannot tell, where that is most of them; empty where they are whole."""
    statuses = texts(tables.inputs, "status")
    said = []
    for status, what in (
        (InputStatus.FAILED, "could not be read"),
        (InputStatus.TRUNCATED, "not read whole: a part is missing or damaged"),
    ):
        count = statuses.count(str(status))
        if count:
            logs = "The log" if len(statuses) == 1 else f"{count:,} of {len(statuses):,} logs"
            was = "" if status is InputStatus.FAILED else "was " if count == 1 else "were "
            said.append(f"{logs} {was}{what}.")
    open_ = np.flatnonzero(unfinished(tables)).tolist()
    if open_ and len(open_) == len(tables.queries):
        names = QueryNames(tables.queries, tables.applications)
        query = tables.tasks["query"].to_numpy(np.int64)
        done = int(((tables.tasks["status"] == "success").to_numpy(bool) & (query >= 0)).sum())
        planned = int(np.maximum(tables.stages["declared_tasks"], 0).sum())
        who = names.called(open_[0]) if len(open_) == 1 else f"{len(open_):,} queries"
        said.append(
            f"{who} had not ended when the log ends ({done:,} of {planned:,} tasks had): nothing "
            f"can be said of {'it' if len(open_) == 1 else 'them'}."
        )
    return " ".join(said)


def lost_executors(about: About, app: int) -> Ints:
    """Rows of the executors that an application lost, not those that were given back."""
    executors = about.tables.executors
    gone = (executors["app"] == app) & executors["removed_ms"].notna()
    end = float(about.tables.applications["end_ms"].iloc[app])
    ended = bool(about.tables.applications["ended"].iloc[app])
    reasons, removed = texts(executors, "removed_reason"), executors["removed_ms"].to_numpy()
    felt = set(about.diagnosis.wasted.tasks["executor"].tolist())
    found = []
    for row in np.flatnonzero(gone.to_numpy(bool)).tolist():
        kind = error_key(reasons[row])
        over = ended and removed[row] >= end
        if not reasons[row] or kind == RELEASED or over:
            continue
        if row in felt or kind not in _HARMLESS_UNLESS_FELT:
            found.append(row)
    return np.array(found, np.int64)


def _failed(about: About, rows: Sequence[int]) -> Finding:
    """Make a finding of queries that failed with the same error."""
    tables = about.tables
    rows = sorted(rows, key=lambda row: -about.ran[row])
    error = texts(tables.queries, "error")[rows[0]]
    key = error_key(error)
    known = errors()[key]
    ran, name = float(about.ran[rows].sum()), about.names.called(rows[0])
    what = "was cancelled" if key in STOPPED else "failed"
    if len(rows) > 1:
        what = f"{len(rows):,} queries {what.replace('was', 'were')}, {name} among them,"
    else:
        what = f"{name} {what}"
    why = f": {error.rstrip('.')}." if error else "; the log does not say why."
    said = [f"{what} after {duration(ran)}{why}"]
    if before := _before(tables, rows):
        said.append(f"Before, {before}.")
    mine = np.isin(tables.tasks["query"].to_numpy(np.int64), rows)
    failed = int(((tables.tasks["status"] == "failed").to_numpy(bool) & mine).sum())
    if failed > 1:
        said.append(f"{failed:,} of its {int(mine.sum()):,} attempts failed.")
    if key != "unknown":
        said.append(known.sentence)
    advice = known.advice
    lost = [row for row in _lost_in(tables, rows) if error_key(_reason(tables, row)) != RELEASED]
    if key in STOPPED and lost:
        advice = errors()[error_key(_reason(tables, lost[0]))].advice
    found = about.finding(
        FindingKind.FAILED,
        dict.fromkeys(rows, 0.0),
        sentence=" ".join(said),
        action=Remedy(advice),
        section="queries",
    )
    return replace(found, subject=name)


def _before(tables: Tables, rows: Sequence[int]) -> str:
    """Say what was lost while some queries ran: executors, fetches, output; empty if nothing."""
    of_query = np.zeros(len(tables.queries) + 1, bool)
    of_query[list(rows)] = True
    mine = of_query[tables.tasks["query"].to_numpy(np.int64)]
    failures = tables.task_failures
    here = mine[failures["task"].to_numpy(np.int64)]
    kinds = failures["reason"].astype(str).to_numpy()[here].tolist()
    lost = _lost_in(tables, rows)
    counts = (
        (len(lost), "executor was lost", "executors were lost"),
        (kinds.count("FetchFailed"), "shuffle fetch failed", "shuffle fetches failed"),
        (
            kinds.count("Resubmitted"),
            "finished task lost its output",
            "finished tasks lost their output",
        ),
    )
    return ", ".join(f"{n:,} {one if n == 1 else many}" for n, one, many in counts if n > 0)


def _lost_in(tables: Tables, rows: Sequence[int]) -> list[int]:
    """Rows of executors that were lost while some queries ran."""
    queries, executors = tables.queries.iloc[list(rows)], tables.executors
    removed, app = executors["removed_ms"].to_numpy(), executors["app"].to_numpy()
    found = []
    for row in np.flatnonzero(np.isfinite(removed)).tolist():
        within = (queries["app"] == app[row]) & (queries["start_ms"] <= removed[row])
        within &= removed[row] <= queries["end_ms"]
        reason = _reason(tables, row)
        if within.any() and reason and error_key(reason) != RELEASED:
            found.append(row)
    return found


def _reason(tables: Tables, executor: int) -> str:
    """Why an executor was removed, in a line."""
    said = texts(tables.executors, "removed_reason")[executor]
    return " ".join(said.partition("\n")[0].split())


def _is_stopped(tables: Tables, found: Finding) -> bool:
    return error_key(texts(tables.queries, "error")[found.queries[0]]) in STOPPED


def _counts(tables: Tables, app: int) -> tuple[int, int, int]:
    """How many attempts of an application ended, how many failed, and executors excluded."""
    mine = (tables.tasks["app"] == app).to_numpy(bool)
    status = tables.tasks["status"][mine]
    ended = int(status.isin(("success", "failed", "killed")).sum())
    executors = tables.executors[(tables.executors["app"] == app).to_numpy(bool)]
    return ended, int((status == "failed").sum()), int(executors["excluded_ms"].notna().sum())


def _is_much(tables: Tables, app: int) -> bool:
    ended, failed, excluded = _counts(tables, app)
    return failed > 0 and (excluded > 0 or failed >= max(MANY_FAILED * ended, 2))


def _trouble(about: About, app: int) -> Iterator[Finding]:
    """Say what an application lost though none of its queries failed."""
    tables = about.tables
    lost = lost_executors(about, app)
    if not len(lost) and not _is_much(tables, app):
        return
    ended, failed, excluded = _counts(tables, app)
    said, keys = [], []
    if len(lost):
        said.append(_lost_words(tables, lost))
        keys.append(error_key(_reason(tables, int(lost[0]))))
    if failed:
        error = _most_frequent(tables, app)
        told = error and not len(lost)
        why = f": {error.rstrip('.')}" if told else ""
        said.append(f"{failed:,} of {ended:,} attempts failed{why}")
        keys.append(error_key(error))
    if excluded:
        some = "1 executor was" if excluded == 1 else f"{excluded:,} executors were"
        said.append(f"{some} excluded for it")
    costs = _delays(about, app)
    known = errors()[keys[0]]
    if not costs:
        here = np.flatnonzero((tables.queries["app"] == app).to_numpy(bool)).tolist()
        costs = dict.fromkeys(here, 0.0)
    else:
        worst = max(costs, key=lambda row: costs[row])
        share = percent(costs[worst] / max(float(about.ran[worst]), 1.0))
        name = about.names.called(worst)
        said.append(f"{name} ended some {duration(costs[worst])} ({share}) {LATER}")
    sentence = f"{'; '.join(said)}."
    name = about.names.called(next(iter(costs))) if costs else ""
    if not costs:
        yield Finding(
            kind=FindingKind.FAILED,
            queries=(),
            subject=texts(tables.applications, "name")[app],
            saves_ms=0.0,
            low_ms=0.0,
            high_ms=0.0,
            share=0.0,
            evidence="estimated",
            where="",
            sentence=printable(sentence),
            action=known.advice,
            settings=(),
            section="inputs",
        )
        return
    found = about.finding(
        FindingKind.FAILED,
        costs,
        sentence=sentence,
        action=Remedy(known.advice),
        section="wasted",
    )
    yield replace(found, subject=name)


def _delays(about: About, app: int) -> dict[int, float]:
    """How much later each query of an application ended for what failed, in ms."""
    delays: dict[int, float] = {}
    for line in wasted_lines(about.diagnosis):
        mine = int(about.tables.queries["app"].iloc[line.query]) == app
        if mine and line.delayed and is_told_as_failure(about, line):
            delays[line.query] = delays.get(line.query, 0.0) + line.elapsed_ms
    return delays


def _lost_words(tables: Tables, lost: Ints) -> str:
    """Say how many executors were lost, and why most of them were."""
    reasons = [_reason(tables, row) for row in lost.tolist()]
    most = max(_alike(map(_short_reason, reasons)), key=len)
    when = np.sort(tables.executors["removed_ms"].to_numpy(np.float64)[lost])
    apart = len(lost) > 2 and bool(np.median(np.diff(when)) > _AT_ONCE_MS)
    some = "1 executor was" if len(lost) == 1 else f"{len(lost):,} executors were"
    of_all = "" if len(most) == len(lost) else f", {len(most):,} of them"
    return f"{some} lost{' one after another' if apart else ''}{of_all}: {most[0].rstrip('.')}"


def _most_frequent(tables: Tables, app: int) -> str:
    """What most failed attempts of an application failed for."""
    failures = tables.task_failures
    task = failures["task"].to_numpy(np.int64)
    mine = (tables.tasks["app"] == app).to_numpy(bool)[task]
    mine &= (tables.tasks["status"] == "failed").to_numpy(bool)[task]
    return max(_alike(texts(failures[mine], "message")), key=len, default=[""])[0]


def _alike(lines: Iterable[str]) -> list[list[str]]:
    """Put lines together that differ only in numbers, ids and times."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        groups.setdefault(family(line), []).append(line)
    return list(groups.values())


def _short_reason(reason: str) -> str:
    """Why an executor was removed, without ids of containers: its exit status where it has one."""
    told = _EXIT.search(encoded(reason))
    if told is None:
        return cut(reason, MOST_ERROR)
    of = "container " if reason.lower().startswith("container") else ""
    return f"{of}exit {told[1].decode().lower()} {told[2].decode()}"
