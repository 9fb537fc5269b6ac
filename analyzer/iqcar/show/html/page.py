"""One HTML file that shows a diagnosis and needs nothing else: no network, no other file."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment

from iqcar.base import limits
from iqcar.base.units import duration, percent, printable, short
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind
from iqcar.logs.text import redact_text
from iqcar.say import find_verdict, meanings
from iqcar.say.blamed import RecurringNames
from iqcar.say.finding_stages import driver_section
from iqcar.say.input_sections import (
    coverage_section,
    hosts_section,
    inputs_section,
    resources_and_hosts_sentence,
    settings_rows,
    timeline_sentence,
)
from iqcar.say.section import Section, columns
from iqcar.say.sections import (
    groupings_that_tell,
    owners_section,
    resources_section,
    wasted_section,
)
from iqcar.say.sentences import counts
from iqcar.say.yarn_section import yarn_section
from iqcar.show.html import files
from iqcar.show.html.blame_rows import lay_out_blame
from iqcar.show.html.environment import escaping_environment
from iqcar.show.html.payload import page_payload
from iqcar.show.html.rules import rules_part
from iqcar.show.html.stragglers import stragglers_part, topics_part
from iqcar.show.html.whatif import what_if_part
from iqcar.show.pictures.executors import MOST_CLUSTERS, cluster_slots
from iqcar.show.pictures.notebook import blame_bar
from iqcar.show.pictures.palette import query_colours
from iqcar.show.pictures.timeline import json_for_html, source_hash
from iqcar.tables import texts
from iqcar.version import __version__


def hosts_part(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay out resources, hosts, and who held the slots of shared clusters."""
    resources, hosts = resources_section(diagnosis), hosts_section(diagnosis)
    return {
        "sentence": resources_and_hosts_sentence(resources, hosts),
        "resources": resources,
        "hosts": hosts.first(limits.MOST_HOST_ROWS, "more hosts, where less was lost"),
        "series": bool(len(diagnosis.tables.tasks)),
        "holders": holders_section(diagnosis),
    }


def holders_section(diagnosis: Diagnosis) -> Section:
    """Show the mean number of slots that each application of a shared cluster held."""
    clusters = cluster_slots(diagnosis.tables, diagnosis.waits)[:MOST_CLUSTERS]
    return Section(
        "executors",
        "Who held the cluster's slots",
        columns=columns("application:name | slots held | of them idle:share"),
        rows=tuple(
            (name, f"{(busy + idle).mean():.1f}", float(idle.sum() / (busy + idle).sum()))
            for cluster in clusters
            for name, busy, idle in zip(
                cluster.plain_names, cluster.busy, cluster.idle, strict=True
            )
        ),
        caption="Slots that each application held, mean over the time of the picture",
    )


def owners_part(diagnosis: Diagnosis) -> list[tuple[str, Section]]:
    """Lay out what owners lost to whom, a grouping each, that of ``--by`` first."""
    found = [
        (printable(by), owners_section(diagnosis, by, limits.MOST_GROUPS))
        for by in groupings_that_tell(diagnosis.tables, diagnosis.settings.by)
    ]
    return [(by, section) for by, section in found if section.rows]


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
            query_ids=texts(diagnosis.tables.queries, "query_id"),
            most_findings=limits.MOST_FINDINGS,
            bars={one.query: blame_bar(one, colours) for one in verdict.recurring},
            owners=owners_part(diagnosis),
            hosts=hosts_part(diagnosis),
            driver=driver_section(diagnosis, limits.MOST_GROUPS),
            yarn=yarn_section(diagnosis.yarn, limits.MOST_GROUPS),
            wasted=wasted_section(diagnosis, verdict.wasted, limits.MOST_GROUPS),
            stragglers=stragglers_part(diagnosis),
            topics=topics_part(diagnosis),
            rules=rules_part(diagnosis),
            whatif=what_if_part(diagnosis),
            inputs=inputs_section(diagnosis),
            coverage=coverage_section(diagnosis),
            settings=settings_rows(diagnosis),
            meanings=meanings(verdict),
            doubts=verdict.doubts[: limits.MOST_DOUBTS],
            doubts_left_out=max(0, len(verdict.doubts) - limits.MOST_DOUBTS),
            **_explored(payload),
            **_matrix(diagnosis, payload["matrix"]["left_out"]),
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


def _matrix(diagnosis: Diagnosis, left: dict[str, int]) -> dict[str, Any]:
    """What the matrix shows in a sentence, runs of recurring queries summed; what is folded."""
    names = RecurringNames(diagnosis.tables)
    hurts = diagnosis.graph.who_hurts_whom()
    hurts = hurts[(hurts["kind"] == BlameKind.QUERY.value) & (hurts["lost_ms"] > 0)]
    pairs: dict[tuple[int, int], float] = {}
    for source, target, lost in hurts[["source_query", "target_query", "lost_ms"]].to_numpy():
        pair = names.first[int(source)], names.first[int(target)]
        pairs[pair] = pairs.get(pair, 0.0) + float(lost)
    folded = ", ".join(
        f"{left[key]:,} {word}"
        for key, word in (("sources", "that were in the way"), ("targets", "that lost time"))
        if left[key]
    )
    said = f"Queries joined under “other queries”: {folded}." if folded else ""
    if not pairs:
        return {
            "matrix_pairs": False,
            "matrix_sentence": "No query lost time to another query.",
            "matrix_left_out": said,
        }
    (source, target), ms = max(pairs.items(), key=lambda item: item[1])
    sentence = (
        f"A row was in the way, a column lost the time. Most was lost by {names.called(target)} to "
        f"{names.called(source)}: {duration(ms)}. Choose a cell to see where and for what."
    )
    return {"matrix_pairs": True, "matrix_sentence": sentence, "matrix_left_out": said}


@cache
def _environment() -> Environment:
    filters: dict[str, Any] = {
        "duration": duration,
        "percent": percent,
        "printable": printable,
    }
    return escaping_environment("iqcar.show.html", **filters)
