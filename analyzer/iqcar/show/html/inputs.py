"""Inputs: what was read, how well waits are known, which versions and settings were used."""

from __future__ import annotations

from typing import Any

import numpy as np

from iqcar.base import limits
from iqcar.base.formatting import REQUEST_NAMES, percent, printable, resource_name
from iqcar.diagnosis import Diagnosis
from iqcar.enums import (
    EVIDENCES,
    REQUESTS,
    Evidence,
    ImpactModel,
    InputStatus,
    QueryBy,
    SourceUsage,
)
from iqcar.logs.text.redact import redact_text
from iqcar.model.waits.columns import evidence_column
from iqcar.version import __version__

_FIRST = {"failed": 0, "truncated": 1, "in_progress": 2, "complete": 3}


def inputs_section(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay out the event logs, the evidence of every wait, versions and settings."""
    frame = diagnosis.tables.inputs
    rows = [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
    for row in rows:
        for name in ("path", "message", "application_id", "application_name", "spark_version"):
            row[name] = printable(redact_text(str(row[name])))
        row["status_sentence"] = InputStatus(row["status"]).sentence
    rows.sort(key=lambda row: _FIRST[row["status"]])
    applications = diagnosis.tables.applications
    counts = {str(s): sum(row["status"] == s for row in rows) for s in InputStatus}
    return {
        "sentence": _sentence(counts, coverage(diagnosis), len(diagnosis.tables.task_records) > 0),
        "logs": rows[: limits.MOST_INPUTS],
        "left_out": max(0, len(rows) - limits.MOST_INPUTS),
        "coverage": coverage(diagnosis),
        "evidences": [{"key": str(one), "sentence": one.sentence} for one in reversed(EVIDENCES)],
        "versions": {
            "iqcar": __version__,
            "Spark": ", ".join(_distinct(applications["spark_version"].tolist())) or "not recorded",
        },
        "scheduler": ", ".join(_distinct(applications["scheduler_mode"].tolist())),
        "plugin_tasks": len(diagnosis.tables.task_records),
        "settings": _settings(diagnosis),
    }


def coverage(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """How well each wait is known: shares of all task time by evidence, which sum to 1.

    Returns
    -------
    list of dict
        Per request: name, resource, and a share for every evidence level; empty without tasks.
    """
    waits = diagnosis.waits
    life = np.nan_to_num(waits["duration_ms"].to_numpy(np.float64))
    total = life.sum()
    if not total > 0:
        return []
    rows = []
    for request in REQUESTS:
        codes = waits[evidence_column(request)].to_numpy(np.int64)
        shares = np.bincount(codes, life, minlength=len(EVIDENCES)) / total
        rows.append(
            {
                "name": REQUEST_NAMES[request],
                "sentence": request.sentence,
                "resource": resource_name(request.resource),
                **{str(one): float(shares[code]) for code, one in enumerate(EVIDENCES)},
            }
        )
    return rows


def _sentence(counts: dict[str, int], covered: list[dict[str, Any]], recorded: bool) -> str:
    whole = sum(counts.values())
    logs = "1 event log was" if whole == 1 else f"{whole:,} event logs were"
    bad = [
        f"{counts[status]:,} {word}"
        for status, word in (
            ("failed", "could not be read"),
            ("truncated", "incomplete"),
            ("in_progress", "still being written"),
        )
        if counts[status]
    ]
    text = f"{logs} read whole." if not bad else f"{logs} given: {', '.join(bad)}."
    if not covered:
        return text + " No task ended in them."
    measured = sum(row[str(Evidence.MEASURED)] for row in covered) / len(covered)
    if measured > 0:
        text += f" {percent(measured)} of all waits were measured by the plugin."
    elif recorded:
        text += " The plugin ran, but measured no wait: the doubts say why."
    else:
        text += (
            " No wait was measured: record with the iqcar plugin (iqcar conf) to see waits for "
            "memory and to tell the processor from locks."
        )
    return text


def _settings(diagnosis: Diagnosis) -> list[dict[str, str]]:
    settings = diagnosis.settings
    kinds: list[tuple[str, QueryBy | ImpactModel | SourceUsage]] = [
        ("what counts as one query", settings.query_by),
        ("what a vertex contributes", settings.impact),
        ("how a source's use is measured", settings.source_usage),
    ]
    rows = [{"name": name, "value": str(one), "sentence": one.sentence} for name, one in kinds]
    only = "Only those on the critical path." if settings.critical_path else "All of them."
    rows.append({"name": "target stages", "value": "", "sentence": only})
    rows.append(
        {"name": "targets, paths and rules shown", "value": str(settings.top), "sentence": ""}
    )
    return rows


def _distinct(values: list[Any]) -> list[str]:
    return [printable(str(value)) for value in dict.fromkeys(values) if value]
