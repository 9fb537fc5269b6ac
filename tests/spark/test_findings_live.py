"""On a real Spark, findings name what makes a query slow, and their action saves what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

import iqcar
from iqcar.enums import FindingKind
from iqcar.say.findings import find_findings
from iqcar.tables import Tables
from tests.support import SUPPORT
from tests.support.listener_spark import run, spark_params

JOBS = SUPPORT / "finding_jobs.py"
SLOTS = 4
FAIR = {"spark.scheduler.mode": "FAIR"}
KINDS = {
    "partitions": (FindingKind.PARTITIONS, {}),
    "skew": (FindingKind.SKEW, {}),
    "pool": (FindingKind.CONTENTION, FAIR),
}
"""What is found, and settings of the run in which its action is taken."""
FIRST = 3
LUCK_MS = 500.0
"""Starting and ending jobs takes some time that differs."""

pytestmark = pytest.mark.spark


def lasted(tables: Tables) -> float:
    """Duration of the target."""
    named = tables.queries[tables.queries["name"].astype(str) == "target"]
    return float(named["duration_ms"].iloc[0])


def recorded(home: Path, folder: Path, kind: str, state: str) -> Tables:
    """Run the application; what its log says."""
    folder.mkdir()
    conf = KINDS[kind][1] if state == "mended" else {}
    app = run(home, folder, [str(JOBS), kind, state], master=f"local[{SLOTS}]", conf=conf)
    assert app.exit_code == 0, app.errors[-3000:]
    return iqcar.read(app.log)


@pytest.mark.parametrize("home", spark_params())
@pytest.mark.parametrize("kind", KINDS)
def test_what_makes_a_query_slow_is_among_the_first_and_its_action_saves_what_is_said(
    home: Path, kind: str, tmp_path: Path
) -> None:
    """Nothing in a plain log tells why tasks sleep: that they do may stand before the planted."""
    before = recorded(home, tmp_path / "was", kind, "was")
    found = find_findings(iqcar.diagnose(before))[:FIRST]
    saved = lasted(before) - lasted(recorded(home, tmp_path / "mended", kind, "mended"))
    for one in found:
        print(f"{kind}: {one.kind} {one.subject} {one.low_ms:.0f} … {one.high_ms:.0f}, {saved:.0f}")
    (named,) = (one for one in found if one.kind is KINDS[kind][0])
    assert named.subject.startswith("target")
    assert named.low_ms - LUCK_MS <= saved <= named.high_ms + LUCK_MS
