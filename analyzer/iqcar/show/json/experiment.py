"""JSON Schemas of plans of experiments and of the files of curves that come from them."""

from __future__ import annotations

from iqcar.show.json.curves_types import CurvesFile
from iqcar.show.json.described import schema_text
from iqcar.show.json.experiment_types import ExperimentPlan


def experiment_schema() -> str:
    """Return the JSON Schema of a plan for ``iqcar experiment``, as text."""
    return schema_text(
        ExperimentPlan,
        title="Plan of iqcar experiment",
        description="What `iqcar experiment` takes: a plan.",
        identity="https://iqcar.org/experiment.schema.json",
    )


def curves_schema() -> str:
    """Return the JSON Schema of what ``iqcar experiment`` writes, as text."""
    return schema_text(
        CurvesFile,
        title="Curves of iqcar experiment",
        identity="https://iqcar.org/curves.schema.json",
    )
