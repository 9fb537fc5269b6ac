"""Pages of what-if questions: a form, how far the answer is, and the answer."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from iqcar.apps.serve.analyses import State
from iqcar.apps.serve.handling import read_query, service_of
from iqcar.apps.serve.responses import render
from iqcar.apps.serve.result_summary import Summary
from iqcar.apps.serve.service import Service
from iqcar.apps.serve.whatif_api import (
    NAMES,
    ChangesOfApps,
    WhatIfForm,
    asked_live,
    what_if_progress,
)
from iqcar.base.units import short
from iqcar.errors import UsageError
from iqcar.replay.whatif.question_parts import PARTS, SEVERAL, PartKind

FORM_S = 1.5
"""Seconds that a sent form waits for its answer before a page shows how far it is."""

LABELS = {
    "remove": "Without query", "host_loss": "Without host", "plan": "Capacity plan",
    "price": "at a price of", "blame": "Who slowed down", "mode": "Scheduler mode",
    "no_skew": "equal work", "no_gc": "no garbage collection", "starts": "Queries start",
}  # fmt: skip
"""What the form calls the parts that it lays out by itself."""
OF_QUERY, OF_CLUSTER = (
    tuple(
        (name, part.label, part.example)
        for name, part in PARTS.items()
        if part.kind in kinds and part.label
    )
    for kinds in ({PartKind.BY_QUERY}, {PartKind.VALUE, PartKind.BY_APPLICATION})
)
"""Changes of one query, and of the cluster: name, label and an example."""
OF_POOL = tuple(
    (name, part.label, part.example)
    for name, part in PARTS.items()
    if part.kind is PartKind.BY_POOL
)
OF_APPLICATION = tuple(
    (name, part.label or LABELS[name], part.forms[-1])
    for name, part in PARTS.items()
    if part.kind is PartKind.BY_APPLICATION
)
"""Changes of pools, and those that can be of one application."""


async def what_if(request: Request) -> Response:
    """Show the form, and the answer to the question in the address or how far it is."""
    service = service_of(request)
    service.listing.look_again()
    return _page(service, read_query(request, WhatIfForm))


async def ask_what_if(request: Request) -> Response:
    """Ask what the form says, and go on to the question's page."""
    service = service_of(request)
    given = parse_qsl((await request.body()).decode("utf-8", "replace"))
    form, problem = _read_form(given)
    if not problem:
        try:
            await asked_live(service, form.app, form, FORM_S)
        except UsageError as error:
            problem = str(error)
    if problem:
        return _page(service, form, problem)
    return RedirectResponse("/whatif?" + _address(form), 303)


def _page(service: Service, form: ChangesOfApps, problem: str = "") -> Response:
    standing = service.standing(form.app, waiting=False)
    asked, model = service.asked(form.app, form.given())
    wrong = bool(problem) or (asked is not None and asked.wrong)
    kept = service.cache.summary(standing.result) if standing.result else None
    progress = what_if_progress(service, form.app, form)
    if not problem and progress.state is State.FAILED:
        problem = progress.message
    values, of_one = _by_application(form)
    query, of_query, further = _by_query(form)
    plain = {"app", "remove", *(name for name, _, _ in OF_CLUSTER[:2] if not of_one[name])}
    body = render(
        "whatif.html",
        standing=standing,
        title=standing.applications[0].name,
        ask="/api/whatif?" + _address(form),
        progress=progress,
        problem=_named(problem),
        amiss=[name for name in PARTS if _option(name) in problem],
        presets=_presets(kept),
        more=bool(form.given().keys() - plain),
        answer=asked.html if asked and asked.state is State.DONE and not problem else "",
        values=values,
        query=query,
        of_query=of_query,
        further=further,
        of_one=of_one,
        several=len(standing.applications) > 1,
        fields_of_one=OF_APPLICATION,
        fields_of_pool=OF_POOL,
        fields_of_query=OF_QUERY,
        fields_of_cluster=OF_CLUSTER,
        names=model.names if model else kept.query_names if kept else [],
        hosts=model.hosts if model else kept.hosts if kept else [],
    )
    return HTMLResponse(body, 400 if wrong else 200)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _named(problem: str) -> str:
    """Call options in a message what the form calls them, the longest first."""
    for name in sorted(PARTS, key=len, reverse=True):
        called = PARTS[name].label or LABELS.get(name, "")
        problem = problem.replace(_option(name), called or _option(name))
    return problem


def _presets(kept: Summary | None) -> list[tuple[str, str, str]]:
    """Three questions that one click asks: name and value of a field, and what it is called."""
    found = [("hosts", "+1", "One host more"), ("disk", "2x", "Disks twice as fast")]
    if kept is not None and kept.culprit_name:
        return [("remove", kept.culprit_name, f"Without {short(kept.culprit_name, 40)}"), *found]
    return [*found, ("no_gc", "true", "No garbage collection")]


def _by_query(form: ChangesOfApps) -> tuple[str, dict[str, str], list[tuple[str, str, str]]]:
    """Lay out what queries are changed in: one query's changes, and those of others.

    Returns
    -------
    str
        The query that a change was given for first; empty: none.
    dict
        Its values by name of the change; ``no_skew`` where its tasks have equal work.
    list of tuple
        Name, label and ``QUERY=VALUE`` of all other changes.
    """
    changes = [
        (name, label, each) for name, label, _ in OF_QUERY for each in getattr(form, name)
    ] + [
        ("no_skew", "equal work for tasks of", f"{each}=true")
        for each in form.given().get("no_skew", ())
    ]
    query = changes[0][2].rpartition("=")[0] if changes else ""
    of_query: dict[str, str] = {}
    further = []
    for name, label, each in changes:
        changed, _, value = each.rpartition("=")
        if changed == query and name not in of_query:
            of_query[name] = value
        else:
            further.append((name, label, changed if name == "no_skew" else each))
    return query, of_query, further


def _by_application(form: ChangesOfApps) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Lay out the values of a form, and apart from them those that are of one application."""
    values: dict[str, Any] = {name: getattr(form, name) for name in NAMES}
    of_one = {}
    for name, _, _ in OF_APPLICATION:
        given = [values[name]] if isinstance(values[name], str) else values[name]
        values[name] = next((each for each in given if "=" not in each), "")
        of_one[name] = [each for each in given if "=" in each]
    return values, of_one


def _address(form: ChangesOfApps) -> str:
    return urlencode({"app": form.app, **form.given()}, doseq=True).replace("=True", "=true")


def _read_form(given: list[tuple[str, str]]) -> tuple[ChangesOfApps, str]:
    """Read what was sent, and say what is wrong with it; what one query is changed in is joined."""
    several = {"app", *(part for part, row in PARTS.items() if row.kind in SEVERAL)}
    fields: dict[str, Any] = {}
    of_query = {}
    for name, value in given:
        if name in several:
            fields[name] = [*fields.get(name, ()), *filter(None, [value.strip()])]
        elif name == "query" or name.startswith("query_"):
            of_query[name.removeprefix("query_")] = value.strip()
        else:
            fields[name] = value.strip()
    query = of_query.pop("query", "")
    problem = ""
    unnamed = [name for name, value in of_query.items() if value]
    if unnamed and not query:
        said = ", ".join(PARTS[name].label or LABELS[name] for name in unnamed)
        problem = f"{said}: name the query that is changed"
    for name, value in of_query.items():
        if value:
            change = query if name == "no_skew" else f"{query}={value}"
            fields[name] = [change, *fields.get(name, ())]
    try:
        return msgspec.convert(fields, WhatIfForm, strict=False), problem
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from error
