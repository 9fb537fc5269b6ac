"""Tables of several logs put together: every row once, and what it points to is what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iqcar.logs.find.locate import locate
from iqcar.logs.ingest import failed, ingest
from iqcar.logs.merge import POINTS_TO, merge
from iqcar.tables import SPECS, Tables
from tests.support.fleet_logs import fleet_log

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = (("h1", "h2"), ("h2", "h3"), ("h4",))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Tables]:
    folder = tmp_path_factory.mktemp("logs")
    found = [failed("no log", "it is none")]
    for number, hosts in enumerate(HOSTS):
        log = fleet_log(f"app-{number}", number, hosts, tasks=5, recorded=number == 1)
        path: Path = log.write(folder / f"app-{number}")
        found += [ingest(one) for one in locate([path])]  # type: ignore[arg-type]
    # Texts of their own, and one without any, as logs of different clusters have them.
    tasks = found[-1].tasks
    localities = np.resize(np.array(["RACK_LOCAL", "ANY", None], object), len(tasks))
    found[-1] = found[-1].with_(tasks=tasks.assign(locality=pd.Categorical(localities)))
    return found


def told(tables: Tables) -> dict[str, list[dict[str, Any]]]:
    """Rows of all tables; a row that another one points to is told by all that it says itself."""
    found: dict[str, list[dict[str, Any]]] = {}

    def rows_of(name: str) -> list[dict[str, Any]]:
        if name not in found:
            frame = getattr(tables, name)
            others = {column: rows_of(of) for column, of in POINTS_TO.get(name, {}).items()}
            found[name] = frame.astype(object).where(frame.notna(), None).to_dict("records")
            for row in found[name]:
                for column, of_target in others.items():
                    row[column] = of_target[row[column]] if row[column] >= 0 else None
        return found[name]

    for spec in SPECS:
        rows_of(spec.name)
    return found


@pytest.fixture(scope="module")
def told_parts(parts: list[Tables]) -> list[dict[str, list[dict[str, Any]]]]:
    return [told(part) for part in parts]


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, len(HOSTS)), max_size=4))
def test_rows_and_what_they_point_to_stay_as_they_were(
    parts: list[Tables], told_parts: list[dict[str, list[dict[str, Any]]]], chosen: list[int]
) -> None:
    merged = merge([parts[number] for number in chosen])
    rows = told(merged)
    for spec in SPECS:
        expected = [row for number in chosen for row in told_parts[number][spec.name]]
        if spec.name == "hosts":
            expected = [{"host": host} for host in dict.fromkeys(row["host"] for row in expected)]
        assert rows[spec.name] == expected
        assert list(getattr(merged, spec.name)) == spec.column_names()
