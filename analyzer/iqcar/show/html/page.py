"""One HTML file that shows a diagnosis and needs nothing else: no network, no other file."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
from jinja2 import Environment

from iqcar.base import limits
from iqcar.base.units import duration, percent, printable, short
from iqcar.causes.stragglers.straggler_result import UNEXPLAINED, by_cause
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind
from iqcar.logs.text import redact_text
from iqcar.rules.compile_pools import allocation_xml, compile_rules, compiled_for, dump_compiled
from iqcar.rules.rule import scheduler_rules
from iqcar.rules.vocabulary import straggler_cause
from iqcar.say import Blamed, Target, find_verdict, meanings
from iqcar.say.blamed import QueryNames, RecurringNames
from iqcar.say.finding_driver import driver_section
from iqcar.say.input_sections import (
    coverage_section,
    hosts_section,
    inputs_section,
    resources_and_hosts_sentence,
    settings_rows,
    timeline_sentence,
    yarn_section,
)
from iqcar.say.rule_lines import (
    advice_lines,
    all_words,
    do_not_apply,
    rejected_lines,
    rule_lines,
    together_words,
)
from iqcar.say.section import Section, columns
from iqcar.say.sections import (
    acting_rules_section,
    groupings_that_tell,
    owners_section,
    resources_section,
    wasted_section,
)
from iqcar.say.sentences import counts
from iqcar.say.straggler_sections import (
    CAUSE_WIDTH,
    GROUPS,
    causes_section,
    group_section,
    headline,
    names_of,
    straggler_lines,
    topic_stages_section,
    topics_section,
)
from iqcar.show.html import files
from iqcar.show.html.files import escaping_environment
from iqcar.show.html.payload import explored_payload, lay_out_blame, page_payload
from iqcar.show.html.whatif import what_if_part
from iqcar.show.pictures.hosts import MOST_CLUSTERS, cluster_slots
from iqcar.show.pictures.theme import cause_colour, query_colours
from iqcar.show.pictures.timeline import json_for_html, source_hash
from iqcar.tables import texts
from iqcar.version import __version__


def stragglers_part(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay out stragglers: counts by cause, stage, query and host, and the worst with evidence."""
    found, names = diagnosis.stragglers, _query_names(diagnosis)
    sentence = headline(found, found.stragglers, found.tasks)
    causes = [one for one in by_cause(found)["cause"].tolist() if one != UNEXPLAINED]
    if causes:
        name = straggler_cause(causes[0]).name
        sentence += f". Most frequent cause: {name}"
    groups = (group_section(found, group, names) for group in GROUPS)
    worst = found.stragglers.head(limits.MOST_STRAGGLERS)
    return {
        "sentence": printable(sentence[0].upper() + sentence[1:]).rstrip(".") + ".",
        "count": len(found.stragglers),
        "causes": causes_section(found),
        "groups": [one.first(limits.MOST_GROUPS, "more") for one in groups if one.rows],
        "worst": straggler_lines(found, worst, names),
        "left_out": max(0, len(found.stragglers) - len(worst)),
    }


def topics_part(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """Lay out topics with keywords and the mixtures of stages; None without topics."""
    found = diagnosis.topics
    if found is None:
        return None
    named, names = names_of(found), _query_names(diagnosis)
    return {
        "topics": topics_section(found, named),
        "stages": topic_stages_section(found, named, names, limits.MOST_TOPIC_STAGES),
    }


def _query_names(diagnosis: Diagnosis) -> dict[int, str]:
    """What to call each query, by row."""
    names = QueryNames(diagnosis.tables.queries, diagnosis.tables.applications)
    return {row: names.called(row, CAUSE_WIDTH) for row in range(len(names.ids))}


def rules_part(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay out rules with their evidence, and the files that apply them."""
    rules = scheduler_rules(diagnosis.rules)
    lines = rule_lines(diagnosis.rules)
    rejected = rejected_lines(diagnosis.rejected_rules)
    common = {
        "rejected": rejected,
        "advice": advice_lines(diagnosis.rules),
        "acted": acting_rules_section(diagnosis.tables),
    }
    if not rules:
        return {
            "sentence": "No scheduler rule is proposed: no query lost enough to another to be "
            "worth one."
            if not rejected
            else do_not_apply(diagnosis),
            "rules": [],
            **common,
        }
    earlier = diagnosis.earlier
    recorded = compiled_for(diagnosis.tables, rules, earlier.recorded)
    plan = compile_rules(rules, recorded.slots, recorded.running, recorded.pools, all_rules=True)
    pools = len(plan.pools) > 0
    together = diagnosis.rules_together
    return {
        "sentence": _sentence(diagnosis, len(rules), pools),
        "rules": lines,
        "all": all_words(together) if together is not None else "",
        "together": together_words(together) if together is not None else "",
        "assumptions": together.assumptions if together is not None else "",
        "notes": [printable(note) for note in (*earlier.notes, *plan.notes)],
        "rules_file": _visible(_file_of(diagnosis)),
        "allocation": allocation_xml(plan.pools).decode("utf-8") if pools else "",
        "pools": pools,
        **common,
    }


def _file_of(diagnosis: Diagnosis) -> str:
    earlier = diagnosis.earlier
    content = dump_compiled(diagnosis.tables, diagnosis.rules, earlier.recorded, earlier.notes)
    return content.decode("utf-8")


def _visible(json_text: str) -> str:
    """Escape what would change how the text around it is read; as JSON it stays the same."""
    return "".join(
        json.dumps(c)[1:-1] if unicodedata.category(c) in ("Cf", "Zl", "Zp") else c
        for c in json_text
    )


def _sentence(diagnosis: Diagnosis, count: int, pools: bool) -> str:
    rules = "1 rule is" if count == 1 else f"{count} rules are"
    if not pools:
        return (
            f"{rules} proposed, but none acts through scheduler pools: read below what would help."
        )
    together = diagnosis.rules_together
    if together is not None and together.harms:
        return do_not_apply(diagnosis)
    text = f"{rules} proposed for the next runs"
    if together is not None:
        change = together.victims_change_percent
        does = "shorten" if change < 0 else "lengthen"
        text += f"; together they are expected to {does} their victims' time by "
        text += percent(abs(change) / 100)
    return text + ". Save the rules file and give it to the plugin, as shown below."


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

    title: heading; the applications' names by default.
    assets: URL of the folder that serves ``plotly.js`` (:func:`iqcar.show.html.files.plotly`), with
    a slash at its end. By default the page holds everything and opens from a disk.
    home: URL of a list of applications to lead back to; none by default.
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
            measure="lost",
            resource="all",
            only="",
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


STEPS = {"sankey": "sankey", "heatmap": "hosts", "waits": "stages"}
"""Steps of exploring a query by the names of the pictures that notebooks show of them."""


def render_picture(
    diagnosis: Diagnosis, picture: str, queries: Sequence[int], *, dark: bool, **chosen: str
) -> str:
    """Render one picture of the page alone, as a page that holds everything it shows.

    picture: ``matrix``, or one of :data:`STEPS`.
    queries: rows of the queries that can be explored.
    chosen: what is chosen first: ``measure``, as the page's controls call it, ``stage`` (id and
    attempt) and ``resource``.
    """
    payload = explored_payload(
        diagnosis, lay_out_blame(diagnosis.graph, len(diagnosis.tables.queries)), queries
    )
    ids = texts(diagnosis.tables.queries, "query_id")
    step = STEPS.get(picture, "")
    target = {"target": ids[queries[0]]} if step else {}
    narrowed = {name: key for name, key in chosen.items() if name != "measure"}
    return (
        _environment()
        .get_template("picture.html.j2")
        .render(
            title=f"{picture} – {page_title(diagnosis)}",
            policy=page_policy(),
            style=files.style(),
            plotly=files.plotly(),
            program=files.program(),
            payload=json_for_html(payload),
            look="dark" if dark else "light",
            only=step,
            view=f"#explore?{urlencode({**target, **narrowed})}" if step else "",
            measure=chosen.get("measure", "lost"),
            resource=chosen.get("resource", "all"),
            payload_resources=payload["resources"],
            **_explored(payload),
            **_matrix(diagnosis, payload["matrix"]["left_out"]),
        )
    )


def _explored(payload: dict[str, Any]) -> dict[str, Any]:
    """Options of the list of queries, and what is not in it."""
    queries = payload["people"]["queries"]
    options = []
    for one in payload["explore"]["targets"]:
        query = queries[one["query"]]
        ran, lost = query["ran"], query["lost"]
        of = f" of {duration(ran)} ({percent(lost / ran)})" if ran else ""
        became = f"{query['status']}, " if query["status"] in ("failed", "cancelled") else ""
        label = f"{short(query['name'], 60)} ({query['number']}) {became}lost {duration(lost)}{of}"
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


_ORDER = (
    BlameKind.QUERY, BlameKind.REST, BlameKind.OWN, BlameKind.KNOWN, BlameKind.UNATTRIBUTED,
)  # fmt: skip


class Segment(NamedTuple):
    """A part of a bar.

    start, width: as shares of the bar, 0 to 1.
    name: who is blamed.
    label: the same with its time and share of the loss, and what a cause means.
    share: of its run.
    """

    start: float
    width: float
    colour: str
    name: str
    label: str
    share: float


def blame_bar(finding: Target, colours: Sequence[str]) -> list[Segment]:
    """Lay out the bar of a finding; its whole width is the query's run.

    colours: colour of each query by row.
    Returns queries first, the largest first, then causes; empty where nothing was lost. Where the
    run is not known, the loss is the whole width.
    """
    lost = sum(one.lost_ms for one in finding.blamed)
    whole = max(finding.ran_ms, lost) if np.isfinite(finding.ran_ms) else lost
    if not whole > 0:
        return []
    segments: list[Segment] = []
    start = 0.0
    times = Counter(one.name for one in finding.blamed)
    for one in sorted(finding.blamed, key=lambda one: _ORDER.index(one.kind)):
        width = one.lost_ms / whole
        label = f"{one.name}: {duration(one.lost_ms)}, {percent(width)} of its run"
        segments.append(
            Segment(
                start,
                width,
                colour=blamed_colour(one, colours),
                name=f"{one.name} {one.number}".rstrip() if times[one.name] > 1 else one.name,
                label=f"{label}. {one.meaning}" if one.meaning else label,
                share=width,
            )
        )
        start += width
    return segments


def blamed_colour(blamed: Blamed, colours: Sequence[str]) -> str:
    """Colour of a query that is blamed, or of the kind of cause."""
    if blamed.query >= 0:
        return colours[blamed.query]
    return cause_colour(blamed.kind, next(iter(blamed.by_resource), None))


@cache
def _environment() -> Environment:
    filters: dict[str, Any] = {
        "duration": duration,
        "percent": percent,
        "printable": printable,
    }
    return escaping_environment("iqcar.show.html", **filters)
