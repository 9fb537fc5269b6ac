"""One damaged log through the whole of iqcar: what of it breaks a promise is a finding.

A case is a number: the log, its damage and how far it is taken are drawn from it.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import random
import sys
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import cramjam
import jsonschema
import numpy as np
import pandas as pd
import zstandard

import iqcar
from iqcar.apps.cli.main import main
from iqcar.enums import InputStatus
from iqcar.errors import ExitCode
from iqcar.logs.tasks import task_columns
from iqcar.rules.compile_pools import dump_compiled
from iqcar.show.html import render_page
from iqcar.show.json.analyze import result_schema, to_json
from iqcar.show.terminal.analyze import print_diagnosis
from iqcar.show.terminal.layout import terminal
from iqcar.tables import Tables
from tests.support.block_codecs import LZ4_END, XERIAL_HEADER, lz4_block, lzf_block, xerial_block
from tests.support.contended_log import contended_log
from tests.support.crowded_log import crowded_log
from tests.support.log_mutations import mutate
from tests.support.log_sources import Source, recorded_log, sample

GOOD = "good"
"""The log that lies beside the damaged one, and must come out whole."""
GOOD_TASKS = 4
ALMOST = 1e-6
"""Relative error of sums that are to be equal."""
LONGEST_SHOWN = 300
_TASK = ["task_id", "stage", "index", "attempt", "launch_ms", "finish_ms", "status"]
"""Columns that tell tasks from each other, first."""


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("analyze", "--json", "-"),
    ("analyze", "--json", "-", "--critical-path"),
    ("analyze", "--json", "-", "--query-by", "job", "--topics"),
    ("analyze", "--json", "-", "--query-by", "app", "--top", "50"),
    ("analyze", "--rules", "-", "--query-by", "job-group"),
    ("analyze",),
    ("queries", "--json", "-"),
    ("queries",),
    ("stragglers", "--json", "-"),
    ("topics", "--json", "-"),
    ("topics",),
)


class Finding(NamedTuple):
    """A promise that was broken."""

    kind: str
    where: str
    """Equal for findings that are probably the same."""
    text: str


class Case(NamedTuple):
    """A folder with a damaged log."""

    files: dict[str, bytes]
    changed_lines: int
    changes: list[str]
    depth: str
    """How far it is taken: read, diagnose, text, page or command."""
    command: tuple[str, ...] = COMMANDS[0]


def make_case(number: int, sources: list[Source]) -> Case:
    """Make the case of a number: the same from the same sources."""
    rng = random.Random(number)
    chosen, other = rng.choice(sources), rng.choice(sources)
    lines, changed, changes = mutate(sample(chosen, rng), sample(other, rng), rng)
    files = _stored(b"".join(line + b"\n" for line in lines), rng)
    if rng.random() < 0.4:
        files[GOOD] = contended_log("app-good", 1_700_000_000_000).bytes()
    depth = rng.choices(("read", "diagnose", "text", "page", "command"), (45, 28, 10, 6, 11))[0]
    return Case(files, changed, [chosen.name, *changes], depth, rng.choice(COMMANDS))


def sound_case() -> Case:
    """Return a case without any damage, taken as far as any."""
    return Case({"app-1": recorded_log(crowded_log()).bytes()}, 0, [], "page")


def _stored(content: bytes, rng: random.Random) -> dict[str, bytes]:
    """Store a log plainly, or compressed, in several files or a zip, damaged there or not."""
    what = rng.random()
    if what < 0.75:
        return {"app-1": content}
    if what < 0.8:
        half = rng.randrange(len(content) + 1)
        parts = {"events_1_app-1": content[:half], "events_2_app-1": content[half:]}
        if rng.random() < 0.5:
            del parts[rng.choice(list(parts))]
        return {f"eventlog_v2_app-1/{name}": part for name, part in parts.items()}
    ending, compress = rng.choice(_CODECS)
    stored = bytearray(compress(content))
    for _ in range(rng.choice((0, 1, 1, 3))):
        at = rng.randrange(len(stored) + 1)
        how = rng.randrange(4)
        if how == 0:
            del stored[at:]
        elif how == 1:
            stored[at : at + 1] = bytes([rng.randrange(256)])
        elif how == 2:
            stored[at:at] = rng.randbytes(rng.choice((1, 4, 300)))
        else:
            del stored[at : at + rng.choice((1, 8, 1000))]
    return {f"app-1{ending}": bytes(stored)}


def _zipped(content: bytes) -> bytes:
    to = io.BytesIO()
    with zipfile.ZipFile(to, "w") as file:
        file.writestr(zipfile.ZipInfo("app-1"), content, zipfile.ZIP_DEFLATED)
    return to.getvalue()


def _chunks(content: bytes) -> Iterator[bytes]:
    return (content[at : at + 32_000] for at in range(0, len(content), 32_000))


_CODECS: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    (".zstd", zstandard.ZstdCompressor(level=1).compress),
    (".gz", lambda content: gzip.compress(content, 1, mtime=0)),
    (".lz4", lambda content: b"".join(map(lz4_block, _chunks(content))) + LZ4_END),
    (".lz4", lambda content: bytes(cramjam.lz4.compress(content))),
    (".snappy", lambda content: XERIAL_HEADER + b"".join(map(xerial_block, _chunks(content)))),
    (".lzf", lambda content: b"".join(map(lzf_block, _chunks(content[:20_000])))),
    (".zip", _zipped),
)


def run_case(case: Case, folder: Path) -> list[Finding]:
    """Write a case into an empty folder and take it through iqcar."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    found: list[Finding] = []
    try:
        with listening(found):
            _check(case, folder, found)
    except MemoryError:
        found.append(Finding("memory", _where(sys.exc_info()[2]), traceback.format_exc()))
    except Exception as error:
        where = f"{type(error).__name__} {_where(error.__traceback__)}"
        found.append(Finding("exception", where, traceback.format_exc()))
    return found


def _check(case: Case, folder: Path, found: list[Finding]) -> None:
    if case.depth == "command":
        _check_command(case, folder, found)
        return
    compiled = iqcar.read(folder, processes=1)
    plain_because = task_columns.plain_because
    try:
        task_columns.plain_because = lambda: "nothing is compiled"
        tables = iqcar.read(folder, processes=1)
    finally:
        task_columns.plain_because = plain_because
    _check_inputs(tables, GOOD in case.files, found)
    _compare(tables, compiled, found)
    _check_texts(tables, found)
    if case.depth == "read":
        return
    diagnosis = iqcar.diagnose(tables, topics=case.depth != "diagnose")
    validate = case.depth != "diagnose" or len(tables.tasks) < 50
    check_result(to_json(diagnosis), validate, found)
    if case.depth == "text":
        print_diagnosis(diagnosis, terminal(io.StringIO()))
        dump_compiled(tables, diagnosis.rules)
    if case.depth == "page":
        render_page(diagnosis).encode("utf-8", "replace")


def _check_inputs(tables: Tables, has_good: bool, found: list[Finding]) -> None:
    for row in tables.inputs.to_dict("records"):
        status = InputStatus(row["status"])
        if status in (InputStatus.FAILED, InputStatus.TRUNCATED) and not row["message"]:
            found.append(Finding("inputs", "no reason", str(row)))
        if has_good and row["path"].endswith(GOOD):
            whole = status is InputStatus.COMPLETE and row["tasks"] == GOOD_TASKS
            if not whole:
                found.append(Finding("harm", "the other log", str(row)))
            has_good = False
    if has_good:
        found.append(Finding("harm", "the other log is missing", str(tables.inputs)))


def _check_texts(tables: Tables, found: list[Finding]) -> None:
    for name, frame in tables:
        for column in frame.select_dtypes(object):
            try:
                "".join(frame[column]).encode()
            except UnicodeEncodeError as error:
                found.append(Finding("text", f"{name}.{column}", str(error)))


def _compare(one: Tables, other: Tables, found: list[Finding]) -> None:
    """Compiled code reads of tasks what the decoders read, whatever their order.

    A line that is damaged where nothing is read may be an event for one of them only, and a scan
    time or a peak of memory may be hidden by damage beside it, so that it is unknown or 0.
    """
    first, second = _plain_tasks(one), _plain_tasks(other)
    if not first[_TASK].equals(second[_TASK]):
        first, second = (tasks[tasks["status"] != "running"] for tasks in (first, second))
        both = set(first["task_id"]) & set(second["task_id"])
        first, second = (
            tasks[tasks["task_id"].isin(both)].drop_duplicates("task_id", keep=False)
            for tasks in (first, second)
        )
        if first["task_id"].tolist() != second["task_id"].tolist():
            return
    for name in first:
        left, right = first[name].to_numpy(), second[name].to_numpy()
        known = first[name].notna().to_numpy() & second[name].notna().to_numpy()
        if name in ("scan_ms", "storage_read_ms", "gpu_wait_ms", "peak_memory_bytes"):
            known &= (left != 0) & (right != 0)
        if (left != right)[known].any():
            found.append(Finding("compiled", name, f"{left}\n{right}"))


def _plain_tasks(tables: Tables) -> pd.DataFrame:
    """Return the tasks with names instead of rows of other tables, in an order of their own."""
    tasks = tables.tasks.astype({"status": str, "locality": str})
    for column, target, name in (
        ("host", tables.hosts, "host"),
        ("executor", tables.executors, "executor_id"),
        ("stage", tables.stages, "stage_id"),
    ):
        names = np.array([*map(str, target[name]), ""], object)
        tasks[column] = names[tasks[column].to_numpy()]
    tasks = tasks.drop(columns=["query"])
    return tasks.sort_values([*_TASK, *tasks.columns.difference(_TASK)], ignore_index=True)


def no_number(token: str) -> Any:
    raise ValueError(f"{token} in JSON")


def check_result(text: bytes | str, validate: bool, found: list[Finding]) -> None:
    result = json.loads(text, parse_constant=no_number)
    if validate:
        error = next(_validator().iter_errors(result), None)
        if error is not None:
            where = "/".join(str(one) for one in error.absolute_schema_path)
            found.append(Finding("schema", where, str(error.message)[:LONGEST_SHOWN]))
    for query in result["queries"]:
        shares = sum(part["share"] for part in query["blame"])
        lost = sum(part["lost_ms"] for part in query["blame"])
        if not (np.isclose(shares, 1, atol=ALMOST) and np.isclose(lost, query["lost_ms"], ALMOST)):
            found.append(Finding("conservation", "blame of a query", str(query)[:2000]))
        lived = query["duration_ms"]
        if lived is not None and not 0 <= query["lost_ms"] <= lived * (1 + ALMOST) + ALMOST:
            found.append(Finding("conservation", "more lost than lived", str(query)[:2000]))
        if lived is not None and query["wasted_elapsed_ms"] > lived * (1 + ALMOST) + ALMOST:
            found.append(Finding("conservation", "later by more than lived", str(query)[:2000]))
    levels = dict.fromkeys(range(7), 0.0)
    for node in result["graph"]["nodes"]:
        levels[node["level"]] += node["dor"]
    if not np.allclose([*levels.values()], levels[0], rtol=ALMOST):
        found.append(Finding("conservation", "levels of the graph", str(levels)))


@lru_cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(result_schema()))


def _check_command(case: Case, folder: Path, found: list[Finding]) -> None:
    """Exit code, one line of an error, and output, as the command line promises."""
    name, *options = case.command
    out, error, before = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO(), sys.argv
    code: Any = None
    try:
        sys.argv = ["iqcar", name, str(folder), *options]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            main()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv = before
    out.flush()
    said, result = error.getvalue(), out.buffer.getvalue()  # type: ignore[attr-defined]
    may_find_nothing = GOOD not in case.files or name == "topics"
    if code not in (ExitCode.OK, ExitCode.PARTIAL, *[ExitCode.NOTHING] * may_find_nothing):
        found.append(Finding("exit code", f"{name} {code}", said))
    elif code == ExitCode.NOTHING:
        if said.count("\n") != 1 or not said.startswith("iqcar: ") or "bug" in said:
            found.append(Finding("error message", said[:40], said))
    elif "--json" in options:
        if name == "analyze":
            check_result(result, True, found)
        else:
            json.loads(result, parse_constant=no_number)


@contextlib.contextmanager
def listening(found: list[Finding]) -> Iterator[None]:
    """Take in what is told on standard error by :data:`iqcar.errors.DEBUG`, and warnings."""
    said, before = io.StringIO(), os.environ.get("IQCAR_DEBUG")
    os.environ["IQCAR_DEBUG"] = "1"
    try:
        with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stderr(said):
            warnings.simplefilter("always", RuntimeWarning)
            yield
    finally:
        os.environ["IQCAR_DEBUG"] = before or ""
        if "Traceback" in said.getvalue():
            lines = said.getvalue().strip().splitlines()
            files = [line.strip() for line in lines if "/iqcar/" in line]
            where = lines[-1].split(":")[0] + " " + (_short(files[-1]) if files else "")
            found.append(Finding("fault", where, said.getvalue()))
    for one in warned:
        if issubclass(one.category, RuntimeWarning):
            where = f"{Path(one.filename).parent.name}/{Path(one.filename).name}:{one.lineno}"
            found.append(Finding("warning", where, str(one.message)))


def _short(line: str) -> str:
    return line.replace('"', "").rpartition("/iqcar/")[2]


def _where(trace: Any) -> str:
    frames = [one for one in traceback.extract_tb(trace) if "/iqcar/" in one.filename]
    last = frames[-1] if frames else traceback.extract_tb(trace)[-1]
    return f"{_short('/iqcar/' + last.filename.rpartition('/iqcar/')[2])}:{last.lineno} {last.name}"
