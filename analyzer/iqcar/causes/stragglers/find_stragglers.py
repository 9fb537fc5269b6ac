"""Finds stragglers and fold the marks of their features into causes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.stragglers.bigroots import cause_names, feature_of, find_marks
from iqcar.causes.stragglers.blame_of_causes import blamed_queries
from iqcar.causes.stragglers.evidence_sentences import sentence_of, unit_of
from iqcar.causes.stragglers.feature_list import SLOW_HOST
from iqcar.causes.stragglers.peers import Compared
from iqcar.causes.stragglers.straggler_result import (
    PEERS,
    STRAGGLER_CAUSES,
    STRAGGLER_SOURCES,
    STRAGGLERS,
    Stragglers,
)
from iqcar.causes.stragglers.straggler_settings import StragglerSettings
from iqcar.enums import CauseEvidence, FeatureKind
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags

if TYPE_CHECKING:
    from iqcar.causes.stragglers.cause_evidence import Marks
    from iqcar.causes.stragglers.features import TaskFeatures

COLD = "cold-executor"
DEFAULT = StragglerSettings()


def find_stragglers(
    features: TaskFeatures,
    tables: Tables,
    blame: Blame,
    settings: StragglerSettings = DEFAULT,
) -> Stragglers:
    """Find the stragglers of event logs, their causes, and who iQCAR blames for those of hosts.

    features: of the tables' tasks, from :func:`iqcar.causes.stragglers.build_features`.
    tables: with queries identified.
    blame: from :func:`iqcar.causes.blame.attribute.attribute`.
    """
    found = explain(features, settings)
    sources = blamed_queries(found.stragglers, found.causes, tables, blame)
    return replace(found, sources=sources)


def explain(features: TaskFeatures, settings: StragglerSettings = DEFAULT) -> Stragglers:
    """Find the stragglers among tasks of any origin, and their causes; nobody is blamed.

    features: of event logs (:func:`iqcar.causes.stragglers.build_features`) or of a trace
        (:func:`iqcar.causes.stragglers.read_trace`).
    """
    compared = Compared.from_features(features, settings)
    marks = find_marks(features, compared, settings)
    stragglers, number = _stragglers(features, compared)
    causes = _causes(features, marks, number, stragglers)
    count = np.bincount(causes["straggler"].to_numpy(np.int64), minlength=len(stragglers))
    return Stragglers(
        stragglers=stragglers.assign(causes=count.astype(np.int32)),
        causes=causes,
        sources=STRAGGLER_SOURCES.empty(),
        compared_stages=_count(features, compared, ["stage", "app", "query"]),
        compared_hosts=_count(features, compared, ["host", "app"]),
        labels=features.labels,
        settings=settings,
        doubts=(*features.doubts, *_doubts(features, compared)),
    )


def _stragglers(
    features: TaskFeatures, compared: Compared
) -> tuple[pd.DataFrame, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Table of stragglers, the most delayed first; and the row of each compared task in it."""
    slow = np.flatnonzero(compared.straggler)
    delay = compared.duration[slow] - compared.median[slow]
    task_id = features.frame["task_id"].to_numpy(np.int64)[compared.rows[slow]]
    slow = slow[np.lexsort((compared.rows[slow], task_id, -delay))]
    tasks = features.frame.iloc[compared.rows[slow]]
    unknown = np.full(len(slow), np.nan)
    columns = {"run_ms": unknown, "cpu_ms": unknown}
    columns.update({c.name: tasks[c.name] for c in STRAGGLERS.columns if c.name in tasks})
    median = compared.median[slow]
    frame = STRAGGLERS.frame(
        {
            **columns,
            "median_ms": median,
            "delay_ms": compared.duration[slow] - median,
            "causes": np.zeros(len(slow)),
            "recorded": _recorded(features)[compared.rows[slow]],
        }
    )
    number = np.full(len(compared.rows), -1)
    number[slow] = np.arange(len(slow))
    return frame.reset_index(drop=True), number


def _recorded(features: TaskFeatures) -> Flags:
    """Return whether any task of each task's application was measured."""
    app = features.frame["app"].to_numpy(np.int64)
    return np.isin(app, app[features.frame["measured"].to_numpy(bool)])


def _causes(
    features: TaskFeatures,
    marks: Marks,
    number: np.ndarray[tuple[int], np.dtype[np.int64]],
    stragglers: pd.DataFrame,
) -> pd.DataFrame:
    """Fold marks into causes: of the features that are evidence of one cause the first is named."""
    straggler = number[marks.task]
    known = {int(p): feature_of(features, int(p)) for p in np.unique(marks.feature)}
    named = cause_names(features, marks)
    numbers = {cause: n for n, cause in enumerate(dict.fromkeys(named))}
    cause = np.array([numbers[name] for name in named], np.int64)
    if COLD in numbers and SLOW_HOST.cause in numbers:
        # A cold executor is why all its tasks are slow: no need of another reason for its host.
        is_cold = np.isin(straggler, straggler[cause == numbers[COLD]])
        cause = np.where(is_cold & (cause == numbers[SLOW_HOST.cause]), numbers[COLD], cause)
    order = np.lexsort((marks.feature, -np.nan_to_num(marks.explained), straggler))
    both = straggler[order] * max(len(numbers), 1) + cause[order]
    _, first = np.unique(both, return_index=True)
    kept = order[np.sort(first)]
    causes = list(numbers)
    delay = stragglers["delay_ms"].to_numpy(np.float64)[straggler[kept]]
    listed = [known[int(p)] for p in marks.feature[kept]]
    numeric = [
        column[kept].tolist()
        for column in (marks.value, marks.peer_mean, marks.ratio, marks.peers, marks.explained)
    ]
    sentences = [
        sentence_of(feature, *row)
        for feature, *row in zip(listed, *numeric, delay.tolist(), strict=True)
    ]
    waited = [feature.kind is FeatureKind.WAIT for feature in listed]
    return STRAGGLER_CAUSES.frame(
        {
            "straggler": straggler[kept],
            "cause": [causes[n] for n in cause[kept].tolist()],
            "feature": [feature.name for feature in listed],
            "unit": [unit_of(feature) for feature in listed],
            "value": marks.value[kept],
            "peer_mean": marks.peer_mean[kept],
            "quantile": marks.quantile[kept],
            "ratio": marks.ratio[kept],
            "peers": [PEERS[p] for p in marks.peers[kept].tolist()],
            "explained": marks.explained[kept],
            "evidence": [str(CauseEvidence.MEASURED if w else CauseEvidence.PAPER) for w in waited],
            "sentence": sentences,
        }
    )


def _count(features: TaskFeatures, compared: Compared, by: list[str]) -> pd.DataFrame:
    tasks = features.frame.iloc[compared.rows][by]
    counted: pd.DataFrame = tasks.groupby(by, sort=True).size().rename("tasks").reset_index()
    return counted


def _doubts(features: TaskFeatures, compared: Compared) -> list[str]:
    """Say what could not be compared, in sentences."""
    doubts = []
    left_out = int(features.frame["compared"].sum()) - len(compared.rows)
    if not len(compared.rows):
        return ["no stage has enough tasks that succeeded: there is no median to be slower than"]
    if left_out:
        doubts.append(
            f"{left_out} tasks are in stages of too few tasks to have stragglers: they were not "
            "looked at"
        )
    stage_of_cell = np.zeros(compared.cell.max() + 1, np.int64)
    stage_of_cell[compared.cell] = compared.stage
    alone = int((np.bincount(stage_of_cell, minlength=compared.stages) == 1).sum())
    if alone == compared.stages:
        doubts.append("every stage ran on one host: tasks have no peers on other hosts")
    known = [f.name for f in features.features if f.kind is FeatureKind.RESOURCE and f.cause]
    rows = compared.rows[compared.straggler]
    sampled = [name for name in known if np.isfinite(features.column(name)[rows]).any()]
    measured = bool(features.frame["measured"].to_numpy(bool)[rows].any())
    if len(rows) and known and not sampled and not measured:
        record = "" if _recorded(features)[rows].all() else " (record with the iqcar plugin)"
        doubts.append(
            "neither samples of hosts nor measured waits are in the input: a busy host can only be "
            f"told from its other tasks{record}"
        )
    return doubts
