"""Records as the Spark plugin writes them, for tests and benchmarks."""

from __future__ import annotations

from typing import Any

WIDTH_MS = 250
"""Of one interval, by default."""
FREQUENT = ("io_read", "shuffle_fetch", "execution_memory", "driver_rpc", "codegen_lock", "other")
"""Classes of waiting that tasks of SQL queries have."""


def packed(values: list[int]) -> str:
    """A series of a profile: runs of the same number as ``number*count``, no zeros at the end."""
    end = len(values)
    while end > 0 and values[end - 1] == 0:
        end -= 1
    runs: list[tuple[int, int]] = []
    for value in values[:end]:
        if runs and runs[-1][0] == value:
            runs[-1] = (value, runs[-1][1] + 1)
        else:
            runs.append((value, 1))
    return ",".join(str(value) if times == 1 else f"{value}*{times}" for value, times in runs)


def plugin_record(
    draw: Any, start_ms: int, wall_ms: int, host: str = "h0", executor: str = "1"
) -> dict[str, Any]:
    """A record with its fields in the plugin's order; ``draw(n)`` is a number below n.

    The task computes, waits for the processor and for one to three classes, in phases of some
    intervals; the series of an interval sum to about its width.
    """
    buckets = -(-wall_ms // WIDTH_MS)
    classes = [FREQUENT[draw(len(FREQUENT))] for _ in range(1 + draw(3))]
    series = {name: [0] * buckets for name in ("cpu", "run_queue", *classes)}
    names, phase = list(series), 0
    for at in range(buckets):
        if draw(4) == 0:
            phase = draw(len(names))
        left = min(WIDTH_MS, wall_ms - at * WIDTH_MS)
        spent = left if draw(3) == 0 else draw(left + 1)
        series[names[phase]][at] += spent
        series["cpu"][at] += left - spent
    totals = {name: sum(values) * 1_000_000 + draw(1_000_000) for name, values in series.items()}
    waits = {name: totals[name] for name in classes}
    off = sum(waits.values())
    looks = wall_ms // 22
    record: dict[str, Any] = {
        "v": 1,
        "host": host,
        "executor": executor,
        "start_ms": start_ms,
        "wall_ns": totals["cpu"] + totals["run_queue"] + off,
        "cpu_ns": totals["cpu"],
        "run_queue_ns": totals["run_queue"],
        "throttled_ns": totals["run_queue"] * (looks % 4) // 4,
        "off_cpu_ns": off,
        "waits_ns": waits,
        "samples": looks,
        "off_samples": looks * off // (wall_ms * 1_000_000 + off),
        "chars_read": draw(1 << 26),
        "chars_written": draw(1 << 24),
        "disk_bytes_read": draw(2) * draw(1 << 26),
        "disk_bytes_written": 0,
        "blocked_ms": draw(50),
        "waited_ms": draw(50),
        "gc_ms": draw(20),
        "peak_held_bytes": 0,
        "mean_held_bytes": 0,
    }
    held = [draw(1 << 16) for _ in range(buckets)] if draw(3) == 0 else []
    if held:
        record["peak_held_bytes"] = max(held) << 10
        record["mean_held_bytes"] = (sum(held) << 10) // buckets
    if buckets >= 2:
        written = {name: packed(values) for name, values in series.items() if any(values)}
        if any(held):
            written["held_kib"] = packed(held)
        record["profile"] = {"bucket_ms": WIDTH_MS, "buckets": buckets, **written}
    return record
