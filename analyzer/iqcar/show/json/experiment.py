"""JSON Schemas of plans of experiments and of the files of curves that come from them."""

from __future__ import annotations

from pathlib import Path

from iqcar.show.json.curves_types import CurvesFile
from iqcar.show.json.described import schema_text


def experiment_schema() -> str:
    """Return the JSON Schema of a plan for ``iqcar experiment``, as text."""
    return Path(__file__).with_name("experiment.schema.json").read_text(encoding="utf-8")


def curves_schema() -> str:
    """Return the JSON Schema of what ``iqcar experiment`` writes, as text."""
    return schema_text(
        CurvesFile,
        title="Curves of iqcar experiment",
        identity="https://iqcar.org/curves.schema.json",
    )
