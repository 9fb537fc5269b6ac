"""Records a mix of queries, diagnoses it, applies what was proposed, and compares the runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from iqcar.apps.demo.mix import SCHEDULE, data_folder, make_data, queries_of
from iqcar.apps.demo.run_mix import Run, run_mix, slots_here
from iqcar.base.files.derived import write_derived
from iqcar.base.units import duration, printable
from iqcar.comparison.check_rules import Check, check_rules
from iqcar.comparison.rule_verdict import RuleVerdict
from iqcar.diagnosis import Diagnosis, WhatIfs
from iqcar.pipeline import diagnose, read
from iqcar.replay.whatif.what_if import WhatIf
from iqcar.rules.compile_pools import dump_compiled, load_rules_file
from iqcar.say.what_if_sentences import check_sentence
from iqcar.show.terminal.layout import plain_table, terminal
from iqcar.show.terminal.rules import print_check

RUNS = 3
"""Runs of the mix on either side: one tells little, as runs differ by themselves."""
WITHIN_S = 70.0
"""Fewer runs where another would end later: the demo is to take three minutes, not ten."""


@dataclass(frozen=True)
class PredictedQuery:
    """One query: seconds as recorded, as predicted with the 80 % range, and as measured.

    Means over its runs. The prediction is None where the model refuses one.
    """

    name: str
    recorded_s: float
    predicted_s: float | None
    low_s: float | None
    high_s: float | None
    measured_s: float

    @property
    def holds(self) -> bool | None:
        """Whether the measured duration is in the range; None without one."""
        if self.low_s is None or self.high_s is None:
            return None
        return self.low_s <= self.measured_s <= self.high_s


@dataclass(frozen=True)
class WhatIfCheck:
    """What-if beside what was measured.

    self_check: as in :class:`iqcar.replay.whatif.what_if.WhatIf`.
    """

    question: str
    self_check: dict[str, Any]
    queries: tuple[PredictedQuery, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in the demo's JSON."""
        return {
            "question": self.question,
            "self_check": self.self_check,
            "queries": [{**vars(query), "holds": query.holds} for query in self.queries],
        }


def predict_in_pools(diagnosis: Diagnosis, rules: Path) -> WhatIf:
    """Predict the mix with each query in the FAIR pool that a file of rules gives it."""
    compiled = json.loads(rules.read_text("utf-8"))
    weights = {pool["name"]: pool["weight"] for pool in compiled["pools"]}
    pools = {one["fingerprint"]: weights[one["pool"]] for one in compiled["assignments"]}
    return WhatIfs(diagnosis).answer(pool=pools)


def check_what_if(predicted: WhatIf, log: Path) -> WhatIfCheck:
    """Put predictions beside the durations that the log of the other run tells."""
    queries = read([log]).queries
    measured = queries.groupby(queries["name"].astype(str))["duration_ms"].mean() / 1e3
    columns = [f"{which}_ms" for which in ("recorded", "predicted", "low", "high")]
    by_name = predicted.queries.groupby(predicted.queries["name"].astype(str), sort=False)
    rows = []
    for name, said in (by_name[columns].agg(lambda ms: ms.mean(skipna=False)) / 1e3).iterrows():
        predicted_s, low, high = (
            float(value) if np.isfinite(value) else None for value in said[columns[1:]]
        )
        rows.append(
            PredictedQuery(
                name=str(name),
                recorded_s=float(said["recorded_ms"]),
                predicted_s=predicted_s,
                low_s=low,
                high_s=high,
                measured_s=float(measured[name]),
            )
        )
    return WhatIfCheck(predicted.question.sentence(), predicted.self_check, tuple(rows))


def print_story(story: Story, console: Console | None = None) -> None:
    """Print what the rules changed, the gain of the most-hurt query, and one what-if, measured."""
    console = console or terminal()
    console.print()
    console.print("What the rules changed", style="bold")
    print_check(story.check, console)
    most = story.most_hurt
    if most and not story.disturbed:
        gain = story.before.duration_s[most] / max(story.after.duration_s[most], 1e-3)
        how = f"took {gain:.1f} times as long without the rules" if gain > 1 else "gained nothing"
        console.print(f"{most}, which lost most to other queries, {how}.")
    _print_what_if(story.what_if, console)


def _print_what_if(check: WhatIfCheck, console: Console) -> None:
    """Print one row per query: recorded, predicted, and measured in the pools of the rules."""
    console.print()
    console.print("What if each query had run in the pool of its rule", style="bold")
    console.print(Text(printable(f"{check_sentence(check.self_check)}.")))
    table = plain_table("query", ">recorded", ">predicted", "(80 %)", ">measured", "")
    for query in check.queries:
        table.add_row(
            query.name,
            duration(1e3 * query.recorded_s),
            *_predicted(query),
            duration(1e3 * query.measured_s),
            {True: "in the range", False: "not in the range", None: ""}[query.holds],
        )
    console.print(table)
    console.print(
        "Predicted from the runs without rules before those with them, with devices that tasks "
        "share; means over runs. A range is for the run it was made from: others have their luck."
    )


def _predicted(query: PredictedQuery) -> tuple[str, str]:
    if query.predicted_s is None or query.low_s is None or query.high_s is None:
        return "refused", ""
    low, high = duration(1e3 * query.low_s), duration(1e3 * query.high_s)
    return duration(1e3 * query.predicted_s), f"({low} … {high})"


def story_json(story: Story) -> bytes:
    """Return the runs as JSON: seconds by query, their sum, and the checks of rules and what-if."""
    before, after = story.before, story.after
    content = {
        "spark": before.spark,
        "slots": before.slots,
        "runs": before.runs,
        "most_hurt": story.most_hurt,
        "queries": [
            {"name": name, "before_s": before.duration_s[name], "after_s": after.duration_s[name]}
            for name in before.duration_s
        ],
        "total": {"before_s": before.total_s, "after_s": after.total_s},
        "logs": {"before": str(before.log), "after": str(after.log)},
        "rules": str(story.rules),
        "check": story.check.to_dict(),
        "what_if": story.what_if.to_dict(),
    }
    return json.dumps(content, indent=1).encode()


@dataclass(frozen=True)
class Story:
    """Result of the demo."""

    before: Run
    after: Run
    diagnosis: Diagnosis
    rules: Path
    check: Check
    what_if: WhatIfCheck

    @property
    def disturbed(self) -> bool:
        """Whether queries without a rule, or other processes, changed as much as the victims."""
        return any(rule.verdict == RuleVerdict.DISTURBED.value for rule in self.check.rules)

    @property
    def most_hurt(self) -> str:
        """Name of the query that lost most to others in the run before; empty if none did."""
        if not self.diagnosis.targets:
            return ""
        return str(self.diagnosis.tables.queries["name"].iloc[self.diagnosis.targets[0]])


def tell(
    out: Path, scale: float, *, say: Callable[[str], None], show: Callable[[Diagnosis], None]
) -> Story:
    """Record the demo's mix, diagnose it, and run it with the proposed rules.

    Raises IqcarError if the data cannot be made, Spark does not start, or a query fails.
    """
    slots = slots_here()
    say(
        f"Runs {len(SCHEDULE)} queries on an embedded Spark with {slots} task slots, diagnoses who "
        f"was in whose way, and runs them again with the rules proposed: up to {RUNS} times each.\n"
        f"Takes about three minutes on two cores; needs no network; writes only to {out}.\n"
    )
    folder = data_folder(out, scale)
    doing = "reusing" if folder.is_dir() else "making"
    say(f"TPC-DS data, scale {scale:g}: {doing} {folder}")
    data = make_data(out, scale)
    tpcds = json.loads((data / "queries.json").read_text("utf-8"))
    queries = queries_of(SCHEDULE, tpcds, slots, scale)
    say("\nWithout rules: Spark as it is, waits measured by the plugin")
    before = run_mix(queries, data, out, name="before", runs=RUNS, within_s=WITHIN_S, say=say)
    diagnosis = diagnose(read([before.log]))
    show(diagnosis)
    rules = out / "rules.json"
    write_derived(rules, dump_compiled(diagnosis.tables, diagnosis.rules))
    predicted = predict_in_pools(diagnosis, rules)
    say("\nWith the rules: the same queries at the same times")
    conf = {"spark.iqcar.rules": str(rules.resolve())}
    after = run_mix(queries, data, out, name="after", conf=conf, runs=before.runs, say=say)
    check = check_rules(load_rules_file(str(rules)), diagnosis.tables, read([after.log]))
    what_if = check_what_if(predicted, after.log)
    return Story(
        before=before, after=after, diagnosis=diagnosis, rules=rules, check=check, what_if=what_if
    )
