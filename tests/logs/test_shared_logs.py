"""Every real event log by other people is analysed whole, and its counts are right."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import iqcar
from iqcar.replay.loop.run import record, replay_errors
from iqcar.show.json.analyze import result_schema, to_json
from iqcar.show.json.whatif import whatif_schema, whatif_to_json
from tests.conftest import shared_logs_folder
from tests.support.independent_count import count
from tests.support.real_logs import LOGS, diagnosis_of_log
from tests.support.stored_stages import check_stored_stages


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(result_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def check_what_if(diagnosis: iqcar.Diagnosis) -> None:
    """A question about any log is answered or refused, and the same run is the same."""
    schema = jsonschema.Draft202012Validator(json.loads(whatif_schema()))
    same = diagnosis.what_if(scale=dict.fromkeys(diagnosis.tables.queries["query_id"][:3], "1x"))
    said = same.queries[same.queries["refused"] == ""]
    assert said["predicted_ms"].tolist() == pytest.approx(said["recorded_ms"].tolist())
    more = diagnosis.what_if(slots=+4, disk="2x")
    schema.validate(json.loads(whatif_to_json(more)))
    told = more.queries
    assert (told["refused"] != "").tolist() == told["predicted_ms"].isna().tolist()
    assert ((told["low_ms"] <= told["predicted_ms"]) | told["predicted_ms"].isna()).all()
    assert more.assumptions


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_counts_and_accounts_of_a_real_log(name: str, validator) -> None:
    diagnosis = diagnosis_of_log(name)
    result = json.loads(to_json(diagnosis))
    validator.validate(result)
    check_what_if(diagnosis)
    check_stored_stages(diagnosis)
    (read,) = result["inputs"]
    counted = count(shared_logs_folder() / name)
    assert {key: read[key] for key in counted} == counted
    assert read["skipped_events"] == 0
    assert np.isfinite(diagnosis.tables.tasks[["launch_ms", "finish_ms"]].to_numpy()).all()
    assert read["status"] in ("complete", "in_progress", "truncated")
    assert read["application_id"]
    for query in result["queries"]:
        assert sum(part["share"] for part in query["blame"]) == pytest.approx(1)
        assert sum(part["lost_ms"] for part in query["blame"]) == pytest.approx(
            query["lost_ms"], abs=1e-6
        )
        assert 0 <= query["lost_ms"] <= query["duration_ms"] + 1e-6
    levels = dict.fromkeys(range(7), 0.0)
    for node in result["graph"]["nodes"]:
        levels[node["level"]] += node["dor"]
    for level in range(1, 7):
        assert levels[level] == pytest.approx(levels[0], rel=1e-6)


@pytest.mark.slow
def test_all_logs_together_keep_applications_apart(shared_logs: Path, validator) -> None:
    result = json.loads(to_json(iqcar.diagnose(iqcar.read(shared_logs))))
    validator.validate(result)
    assert len(result["inputs"]) == len(LOGS)
    ids = [query["query_id"] for query in result["queries"]]
    assert len(ids) == len(set(ids))


REPLAY_ERROR = 0.10
"""Median error of a replay as it was, per log: under 3 % but for one log (8.5 %), where slots stood
free for a fifth of the time in which tasks waited."""


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_a_replay_of_a_real_log_is_near_what_was_recorded(name: str) -> None:
    tables = diagnosis_of_log(name).tables
    recording = record(tables)
    assert len(recording.workloads) == len(tables.applications)
    replayed = recording.replay()
    assert (np.isfinite(replayed.end_ms) & (replayed.duration_ms >= 0)).all()
    off = np.abs(replay_errors(tables, replayed))
    if np.isfinite(off).any():
        assert np.nanmedian(off) < REPLAY_ERROR
