"""Run the demo: record a mix of queries, diagnose it, change what was proposed, and compare."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from iqcar.apps.demo.data import data_folder, make_data
from iqcar.apps.demo.mix import SCHEDULE, queries_of
from iqcar.apps.demo.run_mix import Run, run_mix, slots_here
from iqcar.apps.demo.what_if_check import WhatIfCheck, check_what_if, predict_in_pools
from iqcar.base.files.derived import write_derived
from iqcar.comparison.check_rules import Check, check_rules
from iqcar.comparison.judged_effect import RuleVerdict
from iqcar.diagnosis import Diagnosis
from iqcar.pipeline import diagnose, read
from iqcar.rules import dump_compiled, load_rules_file


@dataclass(frozen=True)
class Story:
    """Result of the demo.

    Attributes
    ----------
    before, after : Run
        The same queries without and with the rules.
    diagnosis : Diagnosis
        Diagnosis of the run before.
    rules : Path
        File of the rules applied in the run after.
    check : Check
        Measured and predicted effect of the rules.
    what_if : WhatIfCheck
        Measured and predicted durations in the pools of the rules.
    """

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
    out: Path,
    scale: float,
    *,
    say: Callable[[str], None],
    show: Callable[[Diagnosis], None],
) -> Story:
    """Record the demo's mix, diagnose it, and run it with the proposed rules.

    Parameters
    ----------
    out : Path
        Folder for data, event logs and rules.
    scale : float
        TPC-DS scale factor.
    say : callable
        Called with each line of progress.
    show : callable
        Called with the diagnosis before the second run.

    Raises
    ------
    IqcarError
        If the data cannot be made, Spark does not start, or a query fails.
    """
    folder = data_folder(out, scale)
    doing = "reusing" if folder.is_dir() else "making"
    say(f"TPC-DS data, scale {scale:g}: {doing} {folder}")
    data = make_data(out, scale)
    tpcds = json.loads((data / "queries.json").read_text("utf-8"))
    queries = queries_of(SCHEDULE, tpcds, slots_here(), scale)
    say(f"\nFirst run: {len(queries)} queries on {slots_here()} task slots, waits measured")
    before = run_mix(queries, data, out, name="before", say=say)
    diagnosis = diagnose(read([before.log]))
    show(diagnosis)
    rules = out / "rules.json"
    write_derived(rules, dump_compiled(diagnosis.tables, diagnosis.rules))
    predicted = predict_in_pools(diagnosis, rules)
    say("\nSecond run: the same queries at the same times, with the rules")
    after = run_mix(
        queries, data, out, name="after", conf={"spark.iqcar.rules": str(rules.resolve())}, say=say
    )
    check = check_rules(load_rules_file(str(rules)), diagnosis.tables, read([after.log]))
    what_if = check_what_if(predicted, after.log)
    return Story(before, after, diagnosis, rules, check, what_if)
