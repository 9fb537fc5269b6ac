"""A cluster that is started anew has hosts of other names: sets without a common host compare."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar_lab.clusters.changes import CHANGES, PLAIN, Variety, drawn_variety, pair_of
from iqcar_lab.clusters.compare_scores import found_by, right_cause
from tests.support.command import iqcar as command
from tests.support.compared_runs import SUITE, write_runs


def other_hosts(folder: Path) -> None:
    """Give every host of the logs in a folder a name of its own."""
    for path in folder.iterdir():
        text = path.read_text()
        for host in set(re.findall(r'"Host":"([^"]+)"', text)):
            text = text.replace(f'"Host":"{host}"', f'"Host":"new-{folder.name}-{host}"')
        path.write_text(text)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("sides")
    before = write_runs(root / "before", SUITE)
    after = write_runs(root / "after", SUITE, first_day=20)
    other_hosts(after)
    return before, after


def test_the_command_and_its_report_compare_sets_without_a_common_host(
    sides: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "report.html"
    done = command("compare", *sides, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "none on both sides" in done.stdout
    assert out.stat().st_size > 10_000
    done = command("compare", *sides, "--json", "-")
    found = json.loads(done.stdout)
    assert not set(found["before"]["hosts"]) & set(found["after"]["hosts"])
    assert found["before"]["host_cores"] == found["after"]["host_cores"] > 0
    assert found["changes"] == []
    assert any("No host is on both sides" in doubt for doubt in found["doubts"])


def test_a_slow_host_among_new_ones_is_named() -> None:
    right = []
    for seed in (31, 32):
        pair = pair_of("slow host", seed, 3, Variety(4, True, "side", 7))
        found = found_by(iqcar.compare(pair.before, pair.after))
        right += [one for each in found if (one := right_cause(pair, each)) is not None]
    assert right and np.mean(right) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHANGES)
def test_every_kind_of_pair_is_compared_whatever_its_hosts_and_ids(kind: str) -> None:
    check_kind(kind, [40])


@pytest.mark.long
@pytest.mark.parametrize("kind", CHANGES)
def test_many_pairs_are_compared_whatever_their_hosts_and_ids(kind: str) -> None:
    varieties = check_kind(kind, range(41, 45))
    assert len({one.named for one in varieties}) > 1


def check_kind(kind: str, seeds: Iterable[int]) -> list[Variety]:
    """Compare a pair of each seed both ways; what the pairs varied."""
    varieties = []
    for seed in seeds:
        variety = drawn_variety(seed)
        pair = pair_of(kind, seed, 1 + seed % 2, variety)
        there = iqcar.compare(pair.before, pair.after)
        back = iqcar.compare(pair.after, pair.before)
        assert there.total_ms == pytest.approx(back.total_ms[::-1])
        assert iqcar.compare(pair.after, pair.after).changes.empty
        assert variety != PLAIN
        varieties.append(variety)
    return varieties
