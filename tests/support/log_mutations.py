"""Damage to the lines of a log that knows their structure: each is drawn from a random generator.

A line is decoded, changed at one or many places and written again; texts that hold JSON themselves
(records of the plugin, scopes of RDDs) are changed inside as well.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 7, 255, 2**15, 2**16, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**53 + 1,
    2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**18, 10**19, 10**30, 10**400, 1e308, -1e308,
    1e-308, 5e-324, 0.1, 0.5, -0.0, 1.5, 1e13, 9.9e13, 1e14, 1e15, 4e15, 1e17, float("nan"),
    float("inf"), float("-inf"), 1_700_000_000_000, 1_700_000_000_001,
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "\x1b[31mred\x1b[0m", "\u202eevil\u2066", "\u200b\ufeff", "\ud800",
    "\udfff\ud800",
    "<script>alert(1)</script>", "</script><!--", "[bold]x[/bold]", "[/]", "${x}", "%s%n{0}{}",
    "../../etc/passwd", "NaN", "1e999", "-1", "0x10", "9" * 400, "9" * 5000, "1" * 30 + ".5",
    "line\nbreak\r\n\t", "quote'\"\\", "\U0001f98a\u0301", "a" * 30_000, "(" * 3000, "[" * 3000,
    "'" * 3000, "a,b" * 2000, "select * from t where x = 1", "--" * 2000, "/*" * 2000, "#1L" * 3000,
    "driver", "1", "default", "host-a", "Success", "TaskKilled", "true", "null", "250*3,12",
    "5*99999", "1*999999999999999", "7*", "*7", "0*3,1,,2", "-5*2", "9999999999999999", "٣*٢",
    "{}", "[]", "{\"start_ms\":1,\"wall_ns\":5,\"cpu_ns\":1}", "=" * 5000, "x://user:pw@h/" * 500,
)  # fmt: skip
"""Texts that break escapes, markup, terminals, pages, numbers, or the searching in them."""
ABSURD = (2**31 - 1, 4_294_967_291, 10**12 + 39, 2**62, 2**63, 10**19, 10**310, -7, 65_521)
"""Sizes that no cluster has, but for the last, which is only a large one."""
SIZES = (
    "Total Cores", "Number of Tasks", "Timestamp", "Submission Time", "Completion Time",
    "Launch Time", "Finish Time", "Executor Run Time", "Peak Execution Memory",
    "Result Size", "Memory Bytes Spilled", "spark.executor.cores", "spark.task.cpus",
    "spark.executor.memory", "spark.driver.memory", "spark.executor.instances",
    "spark.memory.offHeap.size", "spark.memory.fraction", "spark.cores.max",
    "spark.dynamicAllocation.maxExecutors", "spark.sql.shuffle.partitions",
)  # fmt: skip
"""Fields and settings that say how much or how many."""
RUBBISH = (
    b"", b" ", b"{", b"}", b"[]", b"null", b"7", b'"x"', b"{}", b'{"Event":7}', b'{"Event":null}',
    b'{"Event":""}', b'{"Event":"SparkListenerTaskEnd"}', b'{"Event":"SparkListenerTaskStart"}',
    b'{"Event":"SparkListenerJobStart"}', b'{"Event":"SparkListenerStageCompleted"}',
    b'{"Event":"SparkListenerApplicationStart"}',
    b'{"Event":"SparkListenerTaskEnd","Task Info":{}}',
    b"\xff\xfe\x00", b"\x00" * 300, b"[" * 5000, b'{"Event":' * 3000, b'{"a":' * 3000 + b"1",
    b'{"Event":"SparkListenerJobStart","Job ID":' + b"9" * 6000 + b"}", b"\xed\xa0\x80", b"\r",
    b'{"Event":"' + b"x" * 50_000 + b'"}', b'{"Event":"a\\ud800"}',
)  # fmt: skip
_TIME = re.compile(r"time|timestamp|^t$|_ms$", re.IGNORECASE)
_RAW = re.compile(rb'"\\u0000raw(.*?)\\u0000"')
_CUT = 300_000
"""Bytes of a log beyond which nothing is added to it."""

Lines = list[bytes]


def mutate(lines: Lines, others: Lines, rng: random.Random) -> tuple[Lines, int, list[str]]:
    """Damage a log.

    Parameters
    ----------
    lines, others : list of bytes
        Of the log, and of other logs to take lines from.
    rng : Random

    Returns
    -------
    lines, number of lines that were changed, and the names of what was done
    """
    lines, changed, names = list(lines), 0, []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        if not lines:
            break
        change = rng.choices(_CHANGES, _WEIGHTS)[0]
        try:
            lines, touched = change(lines, others, rng)
        except RecursionError:  # an earlier change nested a line too deep for this one
            continue
        names.append(change.__name__)
        changed += touched
    return lines, changed, names


def one_value(lines: Lines, others: Lines, rng: random.Random) -> tuple[Lines, int]:
    """Put something hostile in the place of one value of one line."""
    row, event = _any_event(lines, rng)
    path = _any_path(event, rng)
    if path is None:
        return lines, 0
    _put(event, path, lambda old: hostile(old, rng))
    lines[row] = _written(event, rng)
    return lines, 1


def values_of_a_field(lines: Lines, others: Lines, rng: random.Random) -> tuple[Lines, int]:
    """Put something hostile in the place of one field in every line that has it."""
    _, event = _any_event(lines, rng)
    path = _any_path(event, rng)
    if path is None:
        return lines, 0
    same = rng.random() < 0.5
    value = hostile(_get(event, path), rng)
    kind, touched = event.get("Event") if isinstance(event, dict) else None, 0
    for row, line in enumerate(lines):
        other = _parsed(line)
        if isinstance(other, dict) and other.get("Event") == kind and _has(other, path):
            _put(other, path, lambda old: value if same else hostile(old, rng))
            lines[row] = _written(other, rng)
            touched += 1
    return lines, touched


def all_times(lines: Lines, others: Lines, rng: random.Random) -> tuple[Lines, int]:
    """Move, stretch or replace every time of the log."""
    by = rng.choice((1, -1, 0.5, 1e3, 1e-3, 1e6, -1e3))
    to = rng.choice(
        (0, 1e12, -2e12, 4e15, 1e17, 9.99e13, 2.0**53, 2.0**63, 1e14 - 1_700_000_010_000)
    )
    only = rng.choice(
        (_TIME, _TIME, re.compile("Launch|Finish"), re.compile("Submission|Completion"))
    )

    def moved(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: moved(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [moved(one, key) for one in value]
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        new = value * by + to if is_number and only.search(key) else value
        return int(new) if isinstance(new, float) and abs(new) < 1e30 else new

    touched = 0
    for row, line in enumerate(lines):
        event = _parsed(line)
        if isinstance(event, dict):
            lines[row] = _written(moved(event), rng)
            touched += 1
    return lines, touched


def fields_of_a_line(lines: Lines, others: Lines, rng: random.Random) -> tuple[Lines, int]:
    """Delete, rename, repeat, move or reorder the fields of one line."""
    row, event = _any_event(lines, rng)
    objects = [one for one in _objects(event) if one]
    if not objects:
        return lines, 0
    chosen = rng.choice(objects)
    name = rng.choice(list(chosen))
    what = rng.randrange(5)
    if what == 0:
        del chosen[name]
    elif what == 1:
        chosen[rng.choice((name.lower(), name + " ", "", rng.choice(TEXTS)))] = chosen.pop(name)
    elif what == 2:
        pairs = list(chosen.items())
        rng.shuffle(pairs)
        chosen.clear()
        chosen.update(pairs)
    elif what == 3:
        rng.choice(objects)[name] = _parsed(_written(chosen[name], rng))
    else:
        line = _written(event, rng)
        key = json.dumps(name).encode() + b":"
        lines[row] = line.replace(key, key + rng.choice((b"1,", b"null,", b'"",', b"{},")) + key, 1)
        return lines, 1
    lines[row] = _written(event, rng)
    return lines, 1


def swapped_ids(lines: Lines, others: Lines, rng: random.Random) -> tuple[Lines, int]:
    """Give some lines the id of another job, stage, task, executor or query."""
    key = rng.choice(
        (b"Stage ID", b"Job ID", b"Task ID", b"executionId", b"Stage Attempt ID", b"Index",
         b"RDD ID", b"accumulatorId", b"rootExecutionId", b"Attempt", b"Number of Tasks")
    )  # fmt: skip
    pattern = re.compile(rb'("%s":)(-?\d+)' % key)
    ids = sorted({found.group(2) for line in lines for found in pattern.finditer(line)})
    if not ids:
        return lines, 0
    share, one = rng.choice((0.05, 0.5, 1.0)), rng.choice(ids)
    touched = 0
    for row, line in enumerate(lines):
        if rng.random() < share and pattern.search(line):
            lines[row] = pattern.sub(rb"\g<1>" + one, line)
            touched += 1
    return lines, touched


def absurd_sizes(lines: Lines, others: Lines, rng: random.Random) -> tuple[Lines, int]:
    """Say everywhere that there is more of something than any cluster has."""
    name, value = rng.choice(SIZES), rng.choice(ABSURD)
    if name.startswith("spark."):
        return put_setting(lines, name, f"{value}{rng.choice(('', 'g', 't', 'e9'))}")
    return put_field(lines, name, value)


def put_field(lines: Lines, name: str, value: float) -> tuple[Lines, int]:
    """Put a number into every line that has a field; return the lines, and how many had it."""
    pattern = re.compile(rb'("%s":)-?[\d.e+]+' % name.encode())
    new = [pattern.sub(rb"\g<1>%d" % int(value), line) for line in lines]
    return new, sum(one != other for one, other in zip(new, lines, strict=True))


def put_setting(lines: Lines, name: str, value: str) -> tuple[Lines, int]:
    """Set something for the application; return the lines, and how many were changed."""
    properties = b'"Spark Properties":{'
    own = properties + json.dumps({name: value}).encode()[1:-1]
    new = [
        line.replace(properties + b"}", own + b"}").replace(properties + b'"', own + b',"')
        for line in lines
    ]
    return new, sum(one != other for one, other in zip(new, lines, strict=True))


def order_of_lines(lines: Lines, others: Lines, rng: random.Random) -> tuple[Lines, int]:
    """Delete, repeat, move, cut or join lines."""
    row = rng.randrange(len(lines))
    other = rng.randrange(len(lines))
    what = rng.randrange(8)
    if what == 0:
        del lines[row : row + rng.choice((1, 1, 5, 50))]
    elif what == 1:
        lines[other:other] = lines[row : row + rng.choice((1, 3, 40))]
    elif what == 2:
        lines[row], lines[other] = lines[other], lines[row]
    elif what == 3:
        rng.shuffle(lines)
    elif what == 4:
        lines[row] = lines[row][: rng.randrange(len(lines[row]) + 1)]
    elif what == 5:
        lines[row : row + 2] = [b"".join(lines[row : row + 2])]
    elif what == 6:
        lines.reverse()
    else:
        del lines[row:]
        return lines, 1
    return lines, len(lines) if what in (3, 6) else 1


def lines_of_others(lines: Lines, others: Lines, rng: random.Random) -> tuple[Lines, int]:
    """Put lines of other logs, or rubbish, between those of this one."""
    added = [rng.choice(others) if rng.random() < 0.7 else rng.choice(RUBBISH)
             for _ in range(rng.choice((1, 1, 4, 30)))]  # fmt: skip
    if sum(map(len, added)) > _CUT:
        return lines, 0
    for line in added:
        lines.insert(rng.randrange(len(lines) + 1), line)
    return lines, len(added)


def bytes_of_a_line(lines: Lines, others: Lines, rng: random.Random) -> tuple[Lines, int]:
    """Change, delete or add some bytes of one line."""
    row = rng.randrange(len(lines))
    line = bytearray(lines[row])
    for _ in range(rng.choice((1, 1, 3, 20))):
        at = rng.randrange(len(line) + 1)
        line[at : at + rng.choice((0, 1, 1, 9))] = rng.choice(
            (b"", b'"', b"\\", b"{", b"[", b"}", b",", b":", b"\xff", b"\0", b"-", b"e9", b"9" * 25,
             b"\xc3\x28", b"null", bytes([rng.randrange(256)]))
        )  # fmt: skip
    lines[row] = bytes(line).replace(b"\n", b" ")
    return lines, 1


_CHANGES: tuple[Callable[[Lines, Lines, random.Random], tuple[Lines, int]], ...] = (
    one_value, values_of_a_field, all_times, fields_of_a_line, swapped_ids, order_of_lines,
    lines_of_others, bytes_of_a_line, absurd_sizes,
)  # fmt: skip
_WEIGHTS = (10, 8, 1, 5, 2, 3, 3, 3, 4)


def hostile(old: Any, rng: random.Random) -> Any:
    """Return something to put in the place of a value: most often of its own type."""
    if isinstance(old, str) and old.startswith(("{", "[")) and rng.random() < 0.8:
        inner = _parsed(old.encode("utf-8", "replace"))
        path = _any_path(inner, rng)
        if path is not None:
            _put(inner, path, lambda one: hostile(one, rng))
            return _written(inner, rng).decode("utf-8", "replace")
    what = rng.random()
    if isinstance(old, bool) or what < 0.15:
        return rng.choice(
            (None, True, False, [], {}, [None], {"": None}, [[]], deep(rng), "", 0, "true")
        )
    if isinstance(old, str) and re.fullmatch(r"-?[\d.]+", old) and what < 0.8:
        return str(rng.choice(NUMBERS))[:500]
    if isinstance(old, str) and what < 0.9:
        text = rng.choice(TEXTS)
        at = rng.randrange(len(old) + 1)
        return text if rng.random() < 0.7 else old[:at] + text + old[at:]
    if isinstance(old, (int, float)) and what < 0.9:
        return near(old, rng) if rng.random() < 0.3 else rng.choice(NUMBERS)
    if isinstance(old, list) and old and what < 0.8:
        return old * rng.choice((0, 2, 3)) if len(old) < 200 else old[:1]
    return rng.choice((*NUMBERS[:12], *TEXTS[:12], None, "\0raw-\0", "\0raw01\0", "\0raw1e999\0"))


def near(old: float, rng: random.Random) -> Any:
    """Return a number that is plausible, and yet wrong."""
    if abs(old) > sys.float_info.max / 2_000_000:  # perhaps an integer that no float can hold
        return -old
    times = rng.choice((-1, 0, 0.5, 1, 2, 10, 1000, 1_000_000))
    new = old * times + rng.choice((-1, 0, 1, 0.5))
    return int(new) if isinstance(old, int) and abs(new) < 1e30 else new


def deep(rng: random.Random) -> Any:
    """Return lists in lists, some hundreds deep."""
    found: Any = 1
    for _ in range(rng.choice((10, 200, 600))):
        found = [found] if rng.random() < 0.5 else {"children": [found], "nodeName": "x"}
    return found


def _any_event(lines: Lines, rng: random.Random) -> tuple[int, Any]:
    """Choose a line: every kind of event equally often, as tasks are most of the lines."""
    kinds: dict[bytes, list[int]] = {}
    for row, line in enumerate(lines):
        kinds.setdefault(line[:60], []).append(row)
    row = rng.choice(kinds[rng.choice(sorted(kinds))])
    return row, _parsed(lines[row])


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line, strict=False, parse_int=lambda one: int(one[:4000]))
    except (ValueError, RecursionError):
        return None


def _written(event: Any, rng: random.Random) -> bytes:
    try:
        text = json.dumps(
            event, separators=(",", ":") if rng.random() < 0.9 else None,
            ensure_ascii=rng.random() < 0.6,
        )  # fmt: skip
    except (RecursionError, ValueError):
        return b"{" * 2000
    # Raw tokens stand in marks, which json.dumps escaped; lone surrogates become broken UTF-8.
    return _RAW.sub(rb"\1", text.encode("utf-8", "surrogatepass"))


def _any_path(event: Any, rng: random.Random) -> list[Any] | None:
    """Choose a place in decoded JSON: down until a leaf, or a little before."""
    path: list[Any] = []
    while isinstance(event, (dict, list)) and event and len(path) < 60:
        step = rng.choice(list(event)) if isinstance(event, dict) else rng.randrange(len(event))
        path.append(step)
        event = event[step]
        if rng.random() < 0.07:
            break
    return path or None


def _has(event: Any, path: list[Any]) -> bool:
    try:
        _get(event, path)
    except (LookupError, TypeError):
        return False
    return True


def _get(event: Any, path: list[Any]) -> Any:
    for step in path:
        event = event[step]
    return event


def _put(event: Any, path: list[Any], new: Callable[[Any], Any]) -> None:
    holder = _get(event, path[:-1])
    if isinstance(holder, (dict, list)):
        holder[path[-1]] = new(holder[path[-1]])


def _objects(event: Any) -> list[dict[str, Any]]:
    """Return all objects in decoded JSON, at most some thousands."""
    found, stack = [], [event]
    while stack and len(found) < 3000:
        one = stack.pop()
        if isinstance(one, dict):
            found.append(one)
            stack.extend(one.values())
        elif isinstance(one, list):
            stack.extend(one)
    return found
