"""Print the result of the live-rules experiment as Markdown."""

from __future__ import annotations

from typing import Any

from tables import table

CLUSTERS = {
    "embedded": "Embedded, `local[4]`",
    "standalone": "Standalone, two workers with two slots each",
}
HEAD = [
    "arm", "short queries: median", "90 %", "without intruder", "intruder: median", "runs",
    "to the rule", "to relief", "changes", "oscillations", "verdict",
]  # fmt: skip


def live_rules(result: dict[str, Any]) -> str:
    """Latency, times to rule and relief, and what the intruder pays, by cluster and arm."""
    parts = []
    for cluster, found in result["clusters"].items():
        rows = [arm_row(arm, one) for arm, one in found["arms"].items()]
        head = f"{CLUSTERS[cluster]}; rounds: {found['rounds']}."
        said = [f"- {arm}: {_changes(one)}." for arm, one in found["arms"].items() if _changes(one)]
        parts.append("\n\n".join([head, table(HEAD, rows), *(["\n".join(said)] if said else [])]))
    return (
        "Short queries that came while the intruder was there, of all rounds; to the rule and to "
        "relief: seconds from each intrusion, in order (0: the rule was there; –: not within the "
        "phase). Relief: a short query waits for one task of the intruder at most, as no slot is "
        "taken back. Runs of the intruder are per round; it runs one query after another. The "
        "verdict is against no rules, and none is given where the same queries without the "
        "intruder, or other processes' use of the processors, changed half as much.\n\n"
        + "\n\n".join(parts)
    )


def arm_row(arm: str, one: dict[str, Any]) -> list[str]:
    """Latencies, times and changes of one arm."""
    return [
        arm,
        f"{one['busy_median_s']:.2f} s",
        f"{one['busy_p90_s']:.2f} s",
        f"{one['quiet_median_s']:.2f} s",
        f"{one['intruder_median_s']:.1f} s",
        f"{one['intruder_runs']:.1f}",
        _seconds(one["to_rule_s"]) if any(one["changes"]) else "",
        _seconds(one["to_relief_s"]),
        str(sum(map(len, one["changes"]))),
        str(one["oscillations"]),
        one.get("verdict", ""),
    ]


def _seconds(values: list[float | None]) -> str:
    return ", ".join("–" if value is None else f"{value:.0f}" for value in values)


def _changes(one: dict[str, Any]) -> str:
    """What the loop wrote and took back in each round."""
    rounds = [
        ", ".join(f"{c['event']} {c['rule']} at {c['at_s']:.0f} s" for c in changes)
        for changes in one["changes"]
        if changes
    ]
    return "; ".join(rounds)
