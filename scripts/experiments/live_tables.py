"""Tables of what was tried on a live Spark: rules, tenants, what-if answers, contention."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tables import correlation, percent, seconds, table


def source_elimination(result: dict[str, Any]) -> str:
    """What the target gained without each source."""
    sources = result["sources"]
    rows = [
        [
            row["source"],
            f"{row['dor']:.0%}",
            f"{row['overlap_s']:.1f} s",
            seconds(row["target_s"]),
            percent(row["gain"]),
            percent(row["gain_of_others"]),
        ]
        for row in sources
    ]
    head = ["without", "DOR", "overlap", f"{result['target']} then took", "it gained", "all gained"]
    gains = [row["gain"] for row in sources]
    by_dor = correlation([row["dor"] for row in sources], gains)
    by_overlap = correlation([row["overlap_s"] for row in sources], gains)
    best = max(sources, key=lambda row: row["gain"])["source"]
    return (
        f"Target: {result['target']}, {seconds(result['base_s'])} in BASE; {result['repeats']} "
        "runs of each, medians; gains are of its duration, and of the sum over all others.\n\n"
        f"{table(head, rows)}\n\n"
        f"Rank correlation with the gain (Kendall τ-b): DOR {by_dor:.2f}, overlap in time "
        f"{by_overlap:.2f}. Taking {best} away helped most; most blamed was "
        f"{sources[0]['source']}."
    )


def yarn_queues(result: dict[str, Any]) -> str:
    """How long the query of each tenant took before a plan and with it."""
    head = ["for", "outlook", "application", "took", "replayed", "predicted with the plan", "took"]
    rows = list(result["rows"])
    for target in dict.fromkeys(row[0] for row in rows):
        mine = [row for row in rows if row[0] == target and row[2].startswith("report")]
        sums = [sum(float(row[at].split()[0]) for row in mine) for at in range(3, 7)]
        whole = [target, "", "both reports", *(f"{value:.1f} s" for value in sums)]
        rows.insert(max(map(rows.index, mine)) + 1, whole)
    return table(head, rows)


def rules_efficacy(result: dict[str, Any]) -> str:
    """What changed with each set of rules."""
    rows = [
        [
            arm["arm"],
            seconds(arm["target_s"]),
            percent(arm["target_change"]),
            f"{arm['slot_wait_s']:.1f} s",
            seconds(arm["total_s"]),
            percent(arm["total_change"]),
        ]
        for arm in result["arms"]
    ]
    target = result["target"]
    head = ["rules", target, "change", f"{target} waited for slots", "all queries", "change"]
    aggressor = result.get("aggressor")
    queries = list(result["arms"][0]["queries"])
    each = [
        [query, *(percent(arm["queries"][query]) for arm in result["arms"][1:])]
        for query in queries
    ]
    return (
        f"{result['repeats']} runs of each in turn, medians (and range).\n\n{table(head, rows)}\n\n"
        "Change of each query's duration:\n\n"
        f"{table(['query', *(arm['arm'] for arm in result['arms'][1:])], each)}"
        f"{_by_arm(result, 'wait_shares', f'Share of each wait in all that {target} waited for:')}"
        f"{_by_arm(result, 'aggressor_dor', f'DOR of {aggressor} towards each:')}"
    )


def _by_arm(result: dict[str, Any], name: str, title: str) -> str:
    """One share by arm and row; nothing where the result has none."""
    arms = result["arms"]
    if name not in arms[0]:
        return ""
    rows = [[row, *(f"{arm[name][row]:.0%}" for arm in arms)] for row in arms[0][name]]
    return f"\n\n{title}\n\n{table(['', *(arm['arm'] for arm in arms)], rows)}"


RULES_CLUSTERS = {
    "embedded": "Embedded, `local[4]`",
    "standalone": "Standalone, two workers with two slots each",
}
RULES_HEAD = [
    "arm", "short queries: median", "90 %", "without intruder", "intruder: median", "runs",
    "to the rule", "to relief", "changes", "oscillations", "verdict",
]  # fmt: skip


def live_rules(result: dict[str, Any]) -> str:
    """Latency, times to rule and relief, and what the intruder pays, by cluster and arm."""
    parts = []
    for cluster, found in result["clusters"].items():
        rows = [arm_row(arm, one) for arm, one in found["arms"].items()]
        head = f"{RULES_CLUSTERS[cluster]}; rounds: {found['rounds']}."
        said = [f"- {arm}: {_changes(one)}." for arm, one in found["arms"].items() if _changes(one)]
        parts += [head, table(RULES_HEAD, rows), *(["\n".join(said)] if said else [])]
    return "\n\n".join(parts)


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


KINDS = {
    "nothing": "nothing (the same mix again)",
    "remove": "each source removed in turn",
    "start": "the hog 3 s later",
    "pool": "q39b in a FAIR pool of weight 3",
    "cap": "the hog held at one task",
    "cores": "one core for two",
    "slots": "`local[3]` for `local[2]`",
    "host": "one host lost",
    "all": "all but nothing",
}


WHATIF_CLUSTERS = {
    "embedded": "Embedded, `local[2]`",
    "crowded": "Embedded, `local[4]` on two processors",
    "standalone": "Standalone, two workers with one slot each",
}


def whatif_live(result: dict[str, Any]) -> str:
    """Errors by cluster and kind of question."""
    parts = []
    for cluster, found in result["clusters"].items():
        kinds = {**found["kinds"], "all": found["all"]}
        rows = []
        for kind, name in KINDS.items():
            if kind in kinds:
                rows.append(question_row(name, kinds[kind]))
        head = [
            "do", "pairs", "refused", "measured change", "model", "sign",
            "range holds a rerun", "… the mean", "nothing changes", "slots only", "blame",
            "means: model", "means: nothing changes",
        ]  # fmt: skip
        checks = ", ".join(f"{100 * one['median']:.1f} %" for one in found["self_check"])
        parts.append(
            f"{WHATIF_CLUSTERS[cluster]}; rounds: {found['rounds']}; "
            f"self-checks (median): {checks}.\n\n{table(head, rows)}"
        )
    return "\n\n".join(parts)


def question_row(name: str, kind: dict[str, Any]) -> list[str]:
    """Errors and ranges of one kind of question."""
    methods = kind["methods"]
    model = methods.get("model", {})
    return [
        name,
        str(kind["pairs"]),
        str(kind["refused"]),
        _percent(kind.get("change")),
        _errors(methods, "model"),
        _percent(model.get("sign")),
        _percent(kind.get("covered_one")),
        _percent(kind.get("covered_mean")),
        _errors(methods, "nothing changes"),
        _errors(methods, "slots only"),
        _errors(methods, "blame"),
        _errors(methods, "model", "mean_"),
        _errors(methods, "nothing changes", "mean_"),
    ]


def _errors(methods: dict[str, Any], method: str, prefix: str = "") -> str:
    one = methods.get(method)
    if one is None:
        return ""
    return f"{100 * one[prefix + 'median']:.0f}, {100 * one[prefix + 'p90']:.0f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


MARGIN, LEAST_S = 0.05, 0.05
"""Relative change, and seconds, from which the driver's clock says that a query changed."""


class Judged(NamedTuple):
    """Queries of one arm by what was planted and what was said.

    found, missed, unharmed, false: planted queries that are listed; not listed though their time
    changed; not listed, and their time did not; and listed though nothing was planted in them.
    right, with_cause: of those found, the ones whose first cause is the planted one; all but new
    queries.
    """

    found: list[dict[str, Any]]
    missed: list[dict[str, Any]]
    unharmed: list[dict[str, Any]]
    false: list[dict[str, Any]]
    right: list[dict[str, Any]]
    with_cause: list[dict[str, Any]]


def compare_live(result: dict[str, Any]) -> str:
    """What was found of each change, what was not, and what was said though nothing changed."""
    judged = [(arm, judge(arm)) for arm in result["arms"]]
    head = (
        "change", "runs", "its queries", "found", "missed", "right cause", "false alarms",
        "causes named first",
    )  # fmt: skip
    parts = [
        f"Spark {result['spark']}; runs a side, in turns. Its queries: those that the change "
        "concerns and whose mean time changed by 5 % and 50 ms by the driver's clock, and new "
        "ones; found and false alarms are queries that are listed as changed. The cause is right "
        "where the first one is it, or a setting named with the first one.",
        table(head, [judged_row(arm, of) for arm, of in judged]),
    ]
    missed = [_missed(arm, query) for arm, of in judged for query in of.missed]
    parts += _listing("Missed:", missed)
    false = [_said(arm["arm"], query) for arm, of in judged for query in of.false]
    parts += _listing("False alarms:", false)
    wrong = [
        _said(arm["arm"], query)
        for arm, of in judged
        for query in of.with_cause
        if query not in of.right
    ]
    parts += _listing("Found, with another cause first:", wrong)
    return "\n\n".join([*parts, _quiet(result["quiet"])])


def judge(arm: dict[str, Any]) -> Judged:
    """Sort the queries of an arm."""
    of = Judged([], [], [], [], [], [])
    for query in arm["queries"]:
        if not query["planted"]:
            of.false.extend([query] if query["listed"] else [])
        elif not query["listed"]:
            (of.missed if has_changed(query) else of.unharmed).append(query)
        else:
            of.found.append(query)
            if query["kind"] not in ("added", "removed"):
                of.with_cause.append(query)
                of.right.extend([query] if _is_right(query) else [])
    return of


def has_changed(query: dict[str, Any]) -> bool:
    """Tell whether a query is new, or its mean time changed by as much as matters."""
    if not query["before_s"] or not query["after_s"]:
        return True
    before, after = statistics.mean(query["before_s"]), statistics.mean(query["after_s"])
    return abs(after - before) >= max(MARGIN * min(before, after), LEAST_S)


def _is_right(query: dict[str, Any]) -> bool:
    """Tell whether the first cause, or a setting named with it, is a planted one."""
    return any(cause.startswith(tuple(query["planted"])) for cause in first_causes(query))


def first_causes(query: dict[str, Any]) -> list[str]:
    """The first cause, and the settings that fit it, which follow it."""
    names = [cause for cause, _ in query["causes"]]
    settings = []
    for name in names[1:]:
        if not name.startswith(("conf:", "version:")):
            break
        settings.append(name)
    return [*names[:1], *settings]


def judged_row(arm: dict[str, Any], of: Judged) -> list[str]:
    """One change: its queries, and what was said of them."""
    concerned = [query for query in (*of.found, *of.missed) if has_changed(query)]
    named = Counter(
        " + ".join(_short(cause) for cause in first_causes(query)) or "none"
        for query in (*of.with_cause, *of.false)
    )
    return [
        arm["change"],
        str(max(len(query["before_s"]) for query in arm["queries"])),
        str(len(concerned)) if arm_is_planted(arm) else "–",
        str(len(of.found)) if arm_is_planted(arm) else "–",
        str(len(of.missed)) if arm_is_planted(arm) else "–",
        f"{len(of.right)} of {len(of.with_cause)}" if of.with_cause else "–",
        str(len(of.false)),
        ", ".join(f"{cause} ({count})" for cause, count in named.most_common()) or "–",
    ]


def arm_is_planted(arm: dict[str, Any]) -> bool:
    """Tell whether anything was changed."""
    return any(query["planted"] for query in arm["queries"])


def _short(cause: str) -> str:
    """A cause without the operators of a plan."""
    kind, _, name = cause.partition(":")
    return f"`{kind}`" if kind == "plan" else f"`{kind}:{name}`" if name else f"`{kind}`"


def _missed(arm: dict[str, Any], query: dict[str, Any]) -> str:
    needed = f", needs {query['runs_needed']} runs a side" if query["runs_needed"] else ""
    verdict = query["verdict"].replace("_", " ")
    return f"{arm['arm']}: {query['query']}, {_times(query)}: {verdict}{needed}"


def _said(arm: str, query: dict[str, Any]) -> str:
    why = "; ".join(_escaped(sentence) for _, sentence in query["causes"][:2])
    by = query["evidence"] or ", ".join(
        dict.fromkeys(word for stage in query["stages"] for word in stage["evidence"].split(", "))
    )
    return f"{arm}: {query['query']}, {_times(query)}, by {by}: {query['kind']}, {why}"


def _times(query: dict[str, Any]) -> str:
    before, after = query["before_ms"] / 1e3, query["after_ms"] / 1e3
    return f"{before:.2f} → {after:.2f} s ({percent(after / before - 1) if before else 'new'})"


def _escaped(text: str) -> str:
    short = text if len(text) < 160 else text[:159] + "…"
    return short.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _listing(title: str, lines: Sequence[str]) -> Iterable[str]:
    return [title, "\n".join(f"- {line}" for line in lines)] if lines else []


def _quiet(pairs: Sequence[dict[str, Any]]) -> str:
    """Sets before, of two arms: equal, but not in turns."""
    if not pairs:
        return ""
    alarmed = [pair for pair in pairs if pair["listed"]]
    kinds = Counter(one["kind"] for pair in alarmed for one in pair["listed"])
    said = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common())
    return (
        f"The sets before of two changes each are equal, too, but were not measured in turns: of "
        f"{len(pairs)} such pairs {len(alarmed)} have a finding"
        + (f", {sum(kinds.values())} queries in all: {said}." if alarmed else ".")
    )
