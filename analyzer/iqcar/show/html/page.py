"""One HTML file that shows a diagnosis and needs nothing else: no network, no other file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment

from iqcar.base import limits
from iqcar.base.units import (
    REQUEST_NAMES,
    breakdown,
    duration,
    percent,
    printable,
    resource_name,
    short,
)
from iqcar.causes.blame.blame_tables import QUERY
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
from iqcar.say import find_verdict, meanings
from iqcar.say.owner_losses import KIND_WORDS, groupings_that_tell, losses_by_owner, owner_lines
from iqcar.say.sentences import counts
from iqcar.say.wasted_lines import WastedLine
from iqcar.show.html import files
from iqcar.show.html.blame_rows import lay_out_blame
from iqcar.show.html.environment import escaping_environment
from iqcar.show.html.hosts import hosts_section
from iqcar.show.html.payload import page_payload
from iqcar.show.html.rules import rules_section
from iqcar.show.html.stragglers import stragglers_section, topics_section
from iqcar.show.html.whatif import what_if_section
from iqcar.show.pictures.blame_bar import blame_bar
from iqcar.show.pictures.embed import json_for_html, source_hash
from iqcar.show.pictures.palette import query_colours
from iqcar.show.terminal.wasted_section import wasted_advice, wasted_sentence
from iqcar.tables import Tables
from iqcar.version import __version__


def wasted_part(diagnosis: Diagnosis, lines: Sequence[WastedLine]) -> dict[str, Any]:
    """Lay out wasted work.

    Returns
    -------
    dict
        sentence; rows: the costliest lines; left_out: lines beyond them; advice: name and advice.
    """
    shown = lines[: limits.MOST_GROUPS]
    return {
        "sentence": wasted_sentence(diagnosis.wasted),
        "rows": shown,
        "left_out": len(lines) - len(shown),
        "advice": wasted_advice(shown),
    }


def timeline_sentence(tables: Tables) -> str:
    """Say how long the queries ran, how many at once, and what to do about it."""
    queries = tables.queries
    start = queries["start_ms"].to_numpy(np.float64)
    end = queries["end_ms"].to_numpy(np.float64)
    known = np.isfinite(start) & np.isfinite(end) & (end > start)
    if not known.any():
        return "No query ran for a time that is known."
    start, end = start[known], end[known]
    whole = float(end.max() - start.min())
    # A query that starts the moment another ends does not run at once with it.
    times = np.concatenate([end, start])
    steps = np.repeat([-1, 1], len(start))
    order = np.argsort(times, kind="stable")
    running = np.cumsum(steps[order])
    most = int(running.max())
    count = len(start)
    ran = "1 query ran" if count == 1 else f"{count:,} queries ran"
    if most <= 1:
        text = f"{ran} within {duration(whole)}, never two at once: none could be in another's way."
        return text + " Choose one to see when its tasks waited."
    peak = float(times[order][int(running.argmax())] - start.min())
    return (
        f"{ran} within {duration(whole)}, at most {most:,} at once ({duration(peak)} after the "
        "first started). Choose one to see when its tasks waited; what need not run at the busiest "
        "time can run at another."
    )


def owners_part(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Lay out what owners lost to whom.

    Returns
    -------
    list of dict
        One per grouping, that of ``--by`` first: by; rows: the largest pairs, with the sum of the
        others last. Empty where no query lost time or nothing tells queries apart.
    """
    found = []
    for by in groupings_that_tell(diagnosis.tables, diagnosis.settings.by):
        lines, rest = owner_lines(losses_by_owner(diagnosis, by), limits.MOST_GROUPS)
        if lines:
            rows = [*lines, rest] if rest else list(lines)
            found.append({"by": by, "rows": rows, "words": KIND_WORDS})
    return found


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


TITLE_CHARACTERS = 80


def render_page(diagnosis: Diagnosis, *, title: str = "", assets: str = "", home: str = "") -> str:
    """Render a diagnosis as one HTML page.

    Parameters
    ----------
    diagnosis : Diagnosis
    title : str
        Heading; the applications' names by default.
    assets : str
        URL of the folder that serves ``plotly.js`` (:func:`iqcar.show.html.files.plotly`), with
        a slash at its end. By default the page holds everything and opens from a disk.
    home : str
        URL of a list of applications to lead back to; none by default.

    Returns
    -------
    str
        Names from logs are text in it, never markup or program.
    """
    blame_rows = lay_out_blame(diagnosis.graph, len(diagnosis.tables.queries))
    verdict = find_verdict(diagnosis, limits.MOST_FINDINGS)
    colours = query_colours(diagnosis.tables.queries)
    payload = page_payload(diagnosis, blame_rows)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=printable(title) if title else page_title(diagnosis),
            home=home,
            assets=assets,
            policy=page_policy(assets),
            style=files.style(),
            plotly="" if assets else files.plotly(),
            program=files.program(),
            payload=json_for_html(payload),
            version=__version__,
            counts=counts(diagnosis.tables),
            verdict=verdict,
            bars={one.query: blame_bar(one, colours) for one in verdict.findings},
            owners=owners_part(diagnosis),
            hosts=hosts_section(diagnosis),
            wasted=wasted_part(diagnosis, verdict.wasted),
            stragglers=stragglers_section(diagnosis),
            topics=topics_section(diagnosis),
            rules=rules_section(diagnosis),
            whatif=what_if_section(diagnosis),
            inputs=inputs_section(diagnosis),
            meanings=meanings(verdict),
            doubts=verdict.doubts[: limits.MOST_DOUBTS],
            doubts_left_out=max(0, len(verdict.doubts) - limits.MOST_DOUBTS),
            **_explored(payload),
            **_matrix(payload),
            payload_resources=payload["resources"],
            boxes=payload["fixed"]["boxes"],
            timeline_sentence=timeline_sentence(diagnosis.tables),
        )
    )


def page_policy(assets: str = "") -> str:
    """Content Security Policy of the page: nothing but what stands in it, by hash.

    Plotly sets style attributes on what it draws, hence ``style-src-attr``; nothing of a log can
    become an attribute. It also makes an empty style element, hence the hash of no text.
    """
    scripts = ["'self'"] if assets else [source_hash(files.plotly())]
    scripts.append(source_hash(files.program()))
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(scripts)}",
            f"style-src {source_hash(files.style())} {source_hash('')}",
            "style-src-attr 'unsafe-inline'",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def page_title(diagnosis: Diagnosis) -> str:
    """What the page is called: the applications' names."""
    names = [name for name in diagnosis.tables.applications["name"].tolist() if name]
    distinct = list(dict.fromkeys(names))
    if not distinct:
        return "iqcar report"
    more = len(distinct) - 1
    first = short(redact_text(str(distinct[0])), TITLE_CHARACTERS)
    return first if not more else f"{first} and {more} more"


def _explored(payload: dict[str, Any]) -> dict[str, Any]:
    """Options of the list of queries, and what is not in it."""
    queries = payload["people"]["queries"]
    options = []
    for one in payload["explore"]["targets"]:
        query = queries[one["query"]]
        ran, lost = query["ran"], query["lost"]
        of = f" of {duration(ran)} ({percent(lost / ran)})" if ran else ""
        label = f"{short(query['name'], 60)} ({query['number']}) lost {duration(lost)}{of}"
        options.append({"id": query["id"], "label": label})
    left = payload["explore"]["left_out"]
    said = []
    if left:
        said.append(f"{left:,} more queries lost less; name one with --target to see it here.")
    if payload["explore"]["folded"]:
        said.append("Small parts are joined (other stages, other hosts); every sum is whole.")
    return {"explored": options, "explored_left_out": " ".join(said)}


def _matrix(payload: dict[str, Any]) -> dict[str, str]:
    """What the matrix shows in a sentence, and what was folded in it."""
    matrix, queries = payload["matrix"], payload["people"]["queries"]
    pairs: dict[tuple[int, int], float] = {}
    cells = matrix["cells"]
    for source, kind, target, lost in zip(*cells.values(), strict=True):
        if kind == QUERY and source >= 0 and target >= 0:
            pairs[source, target] = pairs.get((source, target), 0.0) + sum(lost)
    left = matrix["left_out"]
    folded = ", ".join(
        f"{left[key]:,} {word}"
        for key, word in (("sources", "that were in the way"), ("targets", "that lost time"))
        if left[key]
    )
    said = f"Queries joined under “other queries”: {folded}." if folded else ""
    if not pairs:
        return {
            "matrix_sentence": "No query lost time to another query.",
            "matrix_left_out": said,
        }
    (source, target), ms = max(pairs.items(), key=lambda item: item[1])
    hurt = queries[matrix["targets"][target]]["name"]
    by = queries[matrix["sources"][source]]["name"]
    sentence = (
        f"A row was in the way, a column lost the time. Most was lost by {short(hurt, 60)} to "
        f"{short(by, 60)}: {duration(ms)}. Choose a cell to see where and for what."
    )
    return {"matrix_sentence": sentence, "matrix_left_out": said}


@cache
def _environment() -> Environment:
    filters: dict[str, Any] = {
        "duration": duration,
        "percent": percent,
        "bytes": _rate,
        "breakdown": breakdown,
        "printable": printable,
    }
    return escaping_environment("iqcar.show.html", **filters)


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e6:.1f} MB/s"
