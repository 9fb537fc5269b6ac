"""Says and shows what was compared and what differs; terminal, page and notebook show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from iqcar.base.limits import MOST_CAUSES
from iqcar.base.units import duration, percent, short, signed
from iqcar.comparison.comparison import Comparison, relative
from iqcar.comparison.explore import find_variation
from iqcar.comparison.sides import SideFacts
from iqcar.enums import ChangeKind, ChangeVerdict
from iqcar.say.section import Section, columns

MOST_NAMED = 5
"""Queries without a verdict, hosts and settings that are named; the rest is counted."""
NAME_WIDTH = 60
"""Characters of a query's name."""
VALUE_WIDTH = 40
"""Characters of a setting's value."""


def changes_headline(comparison: Comparison) -> str:
    """Say how many queries changed, and which most, by how much and why."""
    changes = comparison.changes
    queries = changes[changes["parent"].to_numpy() < 0]
    if queries.empty:
        return "Nothing changed."
    first = queries.iloc[0]
    relation = relative(first["before_ms"], first["after_ms"])
    amount = f"{signed(first['contribution_ms'])} a run{f' ({relation})' if relation else ''}"
    said = comparison.causes[comparison.causes["change"] == queries.index[0]]["sentence"]
    why = f": {said.iloc[0]}" if len(said) else ""
    changed = counted(len(queries), "query changed", "queries changed")
    most = short(comparison.name(int(first["category"])), NAME_WIDTH)
    return f"{changed}. Most: {most} {amount}, {percent(first['share'])} of all changes{why}."


def totals_sentence(comparison: Comparison) -> str:
    """Say how many runs and queries were compared, and what a run takes on both sides."""
    before, after = comparison.total_ms
    runs = [facts.runs for facts in (comparison.before, comparison.after)]
    of_queries = comparison.changes[comparison.changes["parent"].to_numpy() < 0]
    kinds = of_queries["kind"].tolist()
    only = [
        f"{kinds.count(str(kind))} only {word}"
        for kind, word in ((ChangeKind.REMOVED, "before"), (ChangeKind.ADDED, "after"))
        if str(kind) in kinds
    ]
    queries = ", ".join([f"{counted(len(comparison.common), 'query', 'queries')} in both", *only])
    return (
        f"{counted(runs[0], 'run')} before, {runs[1]} after · {queries} · total {duration(before)} "
        f"→ {duration(after)} a run ({relative(before, after)})"
    )


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: ``1 run``, ``4 runs``."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def differences_sentence(comparison: Comparison) -> str:
    """Name settings, hosts and Spark versions that differ, and what is the same."""
    different = comparison.different
    parts = [
        f"{one.key} {setting_words(one.before)} → {setting_words(one.after)}"
        for one in different.settings[:MOST_NAMED]
    ]
    if len(different.settings) > MOST_NAMED:
        parts.append(f"{len(different.settings) - MOST_NAMED} more settings (--json)")
    gone, new = different.hosts
    hosts = [
        f"hosts only {word} {_named(names)}"
        for names, word in ((gone, "before"), (new, "after"))
        if names
    ]
    before, after = comparison.before, comparison.after
    if gone and new and len(gone) == len(before.hosts) and len(new) == len(after.hosts):
        hosts = [f"hosts {_hosts(before)} → {_hosts(after)}, none on both sides"]
    parts += hosts
    same = [] if hosts else ["hosts"]
    if different.versions is None:
        same.append("Spark")
    else:
        parts.append(
            f"Spark {setting_words(different.versions[0])} → {setting_words(different.versions[1])}"
        )
    said = [f"Different: {' · '.join(parts)}"] if parts else []
    return ". ".join([*said, f"The same: {', '.join(same)}"] if same else said)


def _hosts(facts: SideFacts) -> str:
    cores = f" × {facts.host_cores:g} cores" if facts.host_cores else ""
    return f"{len(facts.hosts)}{cores}"


def setting_words(values: Sequence[str]) -> str:
    """Return the values of a setting, shortened; ``not set`` where there is none."""
    return short(" or ".join(values), VALUE_WIDTH) or "not set"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(short(name) for name in names[:MOST_NAMED]) + more


INDENT = "↳ "
"""Stands before the name of a stage, under that of its query."""


def changes_section(comparison: Comparison) -> Section:
    """Show the queries by what they add to a run, each followed by its stages that changed."""
    sentences: dict[int, list[str]] = {}
    causes = comparison.causes
    for change, sentence in zip(causes["change"].tolist(), causes["sentence"], strict=True):
        sentences.setdefault(change, []).append(sentence)
    rows = []
    for number, row in enumerate(comparison.changes.to_dict("records")):
        is_stage = row["parent"] >= 0
        instances = comparison.effects["instances"].iloc[row["category"]]
        times = f" ×{instances:g}" if instances > 1 and not is_stage else ""
        change = relative(row["before_ms"], row["after_ms"])
        rows.append(
            (
                f"{INDENT if is_stage else str(row['rank']) + '. '}"
                f"{comparison.name(row['category'])}{times}",
                row["before_ms"],
                f"{duration(row['after_ms'])}{f' ({change})' if change else ''}",
                interval_words(row["contribution_ms"], row["low_ms"], row["high_ms"]),
                "" if is_stage else row["share"] or 0.0,
                row["kind"],
                ", ".join(sentences.get(number, [])[:MOST_CAUSES]),
                f"{row['runs_before']}/{row['runs_after']}",
                row["evidence"].replace("cpu", "CPU") or "one side only",
                _q(row["q_value"]),
            )
        )
    return Section(
        "changes",
        "What changed",
        columns=columns(
            "query or stage:name | before:time | after:time | change a run:change",
            "+of all changes:share | kind | why | runs:number | +told by | +q:number",
        ),
        rows=tuple(rows),
        caption="Queries by what they add to a run, each followed by its stages that changed",
    )


def steps_section(comparison: Comparison, category: int) -> Section:
    """Show what the stages and the driver add to the change of a query."""
    parts = comparison.parts(category)
    order = np.argsort(-parts["contribution_ms"].abs().to_numpy(np.float64), kind="stable")
    shown = ("name", "before_ms", "after_ms", "contribution_ms")
    return Section(
        f"steps-{category}",
        "Stages and driver",
        columns=columns("stage:name | before:time | after:time | change a run:change"),
        rows=tuple(
            tuple(row[name] for name in shown) for row in parts.iloc[order].to_dict("records")
        ),
        caption="The changes of stages and driver sum to that of the query",
    )


def unchanged_section(comparison: Comparison, verdict: ChangeVerdict) -> Section:
    """Show queries without a change, the largest difference first."""
    rows = comparison.verdict_of(verdict)
    effects = comparison.effects.iloc[rows]
    order = np.argsort(-np.nan_to_num(effects["contribution_ms"].abs().to_numpy(np.float64)))
    unclear = verdict is ChangeVerdict.CANNOT_TELL
    same = f"The same within ±{percent(comparison.margin)}"
    return Section(
        "unclear" if unclear else "same",
        "Cannot tell" if unclear else same,
        columns=columns(
            "query:name | before:time | after:time | difference:share | change a run:change",
            "runs:number",
            *(["runs a side that would tell:count"] if unclear else []),
        ),
        rows=tuple(
            (
                comparison.name(rows[place]),
                one["before_ms"],
                one["after_ms"],
                relative(one["before_ms"], one["after_ms"]),
                interval_words(one["contribution_ms"], one["low_ms"], one["high_ms"]),
                f"{int(one['runs_before'])}/{int(one['runs_after'])}",
                *([int(one["runs_needed"]) or ""] if unclear else []),
            )
            for place, one in zip(
                order.tolist(), effects.iloc[order].to_dict("records"), strict=True
            )
        ),
        caption="Cannot tell, the largest difference first" if unclear else same,
    )


def settings_section(comparison: Comparison) -> Section:
    """Show the settings that differ."""

    def words(values: Iterable[str]) -> str:
        return " or ".join(values) or "not set"

    return Section(
        "settings",
        "What else differs",
        columns=columns("setting:name | before:name | after:name"),
        rows=tuple(
            (one.key, words(one.before), words(one.after)) for one in comparison.different.settings
        ),
        caption="Settings that differ",
    )


def variation_section(comparison: Comparison) -> Section:
    """Show how much times vary, of the queries and stages that took longest first."""
    variation, effects = find_variation(comparison), comparison.effects
    kinds = comparison.categories["kind"].to_numpy()
    longest = effects[["before_ms", "after_ms"]].max(axis=1).to_numpy(np.float64)
    shown = np.flatnonzero((kinds != "driver") & (longest > 0))
    order = shown[np.argsort(-longest[shown], kind="stable")].tolist()
    roots = comparison.categories["query_category"].tolist()
    names = ("runs_c2_before", "runs_c2_after", "tasks_c2_before", "tasks_c2_after")
    return Section(
        "browse",
        "Browse",
        columns=columns(
            "query or stage:name | of query:name | C² of runs before:number | after:number",
            "C² of tasks before:number | after:number",
        ),
        rows=tuple(
            (
                comparison.name(row),
                "" if kinds[row] == "query" else comparison.name(roots[row]),
                *(_c2(variation[name].iloc[row]) for name in names),
            )
            for row in order
        ),
        caption="Queries and stages, those that took longest first",
    )


def interval_words(ms: float, low: float, high: float) -> str:
    """Write a change with its interval, where there is one."""
    if not np.isfinite(low) or not np.isfinite(high):
        return signed(ms)
    return f"{signed(ms)} [{signed(low)}, {signed(high)}]"


def _c2(value: float) -> str:
    if not np.isfinite(value):
        return "unknown"
    return "<0.001" if 0 < value < 0.001 else f"{value:.2g}"


def _q(value: float) -> str:
    if not np.isfinite(value):
        return "untested"
    return "<0.001" if value < 0.001 else f"{value:.3f}"
