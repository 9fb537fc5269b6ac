"""On a real Spark, findings name what makes a query slow, and their action saves what they say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

import iqcar
from iqcar.enums import FindingKind
from iqcar.say.finding import Finding
from iqcar.say.findings import find_findings
from iqcar.tables import Tables
from tests.support import SUPPORT
from tests.support.listener_spark import run, spark_params

JOBS = SUPPORT / "finding_jobs.py"


class Made(NamedTuple):
    """What is found, and settings of the runs: both, and the one in which its action is taken.

    Where no settings are for the latter, they are those that the finding names. Tasks that sleep
    take as long in every run; else the shortest of some runs counts, by turns with and without the
    action.
    """

    kind: FindingKind
    slots: int = 4
    conf: Mapping[str, str] = {}
    mended: Mapping[str, str] | None = {}
    runs: int = 1


FAIR = {"spark.scheduler.mode": "FAIR"}
FEW = {"spark.sql.shuffle.partitions": "8", "spark.sql.adaptive.enabled": "false"}
KINDS = {
    "partitions": Made(FindingKind.PARTITIONS),
    "skew": Made(FindingKind.SKEW),
    "pool": Made(FindingKind.CONTENTION, mended=FAIR),
    "memory": Made(FindingKind.MEMORY, 2, FEW | {"spark.memory.fraction": "0.02"}, None, 3),
    "broadcast": Made(
        FindingKind.BROADCAST, 2, FEW | {"spark.sql.autoBroadcastJoinThreshold": "-1"}, None, 3
    ),
}
USUAL = "partitions"
"""The one kind that is tried outside of long runs."""
FIRST = 3
LUCK_MS = 500.0
"""Starting and ending jobs takes some time that differs."""

pytestmark = [pytest.mark.long, pytest.mark.spark]


def lasted(tables: Tables) -> float:
    """Duration of the target."""
    named = tables.queries[tables.queries["name"].astype(str) == "target"]
    return float(named["duration_ms"].iloc[0])


def recorded(home: Path, folder: Path, kind: str, conf: Mapping[str, str]) -> Tables:
    """Run the application; what its log says."""
    folder.mkdir()
    state, _, _ = folder.name.partition("-")
    master = f"local[{KINDS[kind].slots}]"
    app = run(home, folder, [str(JOBS), kind, state], master=master, conf=conf)
    assert app.exit_code == 0, app.errors[-3000:]
    return iqcar.read(app.log)


def told(tables: Tables, kind: FindingKind) -> tuple[Finding, tuple[Finding, ...]]:
    """The one finding of a kind on the target among the first ones, and those."""
    found = find_findings(iqcar.diagnose(tables))[:FIRST]
    (named,) = (one for one in found if one.kind is kind and one.subject.startswith("target"))
    return named, found


@pytest.mark.parametrize("home", spark_params())
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.long] * (k != USUAL)) for k in KINDS]
)
def test_what_makes_a_query_slow_is_among_the_first_and_its_action_saves_what_is_said(
    home: Path, kind: str, tmp_path: Path
) -> None:
    """Nothing in a plain log tells why tasks sleep: that they do may stand before the planted."""
    made = KINDS[kind]
    was, mended = [], []
    action = made.mended
    for number in range(made.runs):
        was.append(recorded(home, tmp_path / f"was-{number}", kind, made.conf))
        if action is None:
            named, _ = told(was[0], made.kind)
            action = {name: value for name, value, _ in named.settings}
        conf = {**made.conf, **action}
        mended.append(recorded(home, tmp_path / f"mended-{number}", kind, conf))
    before = min(was, key=lasted)
    saved = lasted(before) - min(map(lasted, mended))
    named, found = told(before, made.kind)
    for one in found:
        print(f"{kind}: {one.kind} {one.subject} {one.low_ms:.0f} … {one.high_ms:.0f}, {saved:.0f}")
    assert named.low_ms - LUCK_MS <= saved <= named.high_ms + LUCK_MS
