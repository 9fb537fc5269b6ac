"""Takes from a result what one tool answers, in bounded size: pages of lists, shortened texts."""

from __future__ import annotations

from math import ceil
from typing import Any

from iqcar.base.units import LINES, printable
from iqcar.errors import UsageError

ABOUT_QUERY = (
    *("query_id", "name", "kind", "fingerprint", "pool", "start_ms", "duration_ms", "ended"),
    *(
        "failed",
        "status",
        "error",
        "lost_ms",
        "lost_to_others_ms",
        "lost_low_ms",
        "lost_high_ms",
        "driver",
    ),
    *("share_of_duration", "slowdown"),
)
"""What a list of queries tells of each."""
WORST = 5
"""Items of each ranking in an overview."""
NEAREST = 8
"""Names that are suggested for a query that is not there."""


def overview(result: dict[str, Any]) -> dict[str, Any]:
    """Return what would save time, what was read, who lost most and to whom, and where."""
    by_loss = sorted(result["queries"], key=lambda one: -(one["lost_to_others_ms"] or 0.0))
    return {
        "findings": bounded(result["findings"][:WORST]),
        "inputs": bounded(result["inputs"]),
        "queries": len(result["queries"]),
        "lost_ms": sum(one["lost_ms"] or 0.0 for one in result["queries"]),
        "lost_to_others_ms": sum(one["lost_to_others_ms"] or 0.0 for one in by_loss),
        "worst_queries": [bounded(only(one, ABOUT_QUERY)) for one in by_loss[:WORST]],
        "aggressive_queries": bounded(result["aggressive_queries"][:WORST]),
        "hot_resources": bounded(result["hot_resources"][:WORST]),
        "slow_nodes": bounded(result["slow_nodes"][:WORST]),
        "stragglers": bounded(
            only(result["stragglers"], ("count", "explained", "delay_ms", "by_cause"))
        ),
        "rules": len(result["rules"]),
        "doubts": bounded(result["doubts"]),
    }


def queries(result: dict[str, Any], search: str, page: int) -> dict[str, Any]:
    """Return queries by what they lost to others, the most first."""
    words = search.casefold().split()
    found = [
        only(one, ABOUT_QUERY)
        for one in sorted(result["queries"], key=lambda one: -(one["lost_to_others_ms"] or 0.0))
        if all(word in f"{one['query_id']} {one['name']}".casefold() for word in words)
    ]
    return page_of(found, page)


def blame(result: dict[str, Any], query: str) -> dict[str, Any]:
    """Return the waits of a query with their evidence, and whom they are blamed on."""
    one = _find(result["queries"], query)
    return {
        **bounded(only(one, ABOUT_QUERY)),
        "waits": bounded(one["waits"]),
        "blame": bounded(one["blame"]),
        "stragglers": bounded(one["stragglers"]),
        "wasted_elapsed_ms": one["wasted_elapsed_ms"],
        "paths": bounded(
            [path for path in result["paths"] if path["target_query_id"] == one["query_id"]]
        ),
        "doubts": bounded(result["doubts"]),
    }


def stragglers(result: dict[str, Any], query: str, page: int) -> dict[str, Any]:
    """Return the stragglers that cost most, with their causes and what would help."""
    found = result["stragglers"]
    worst = found["worst"]
    if query:
        wanted = _find(result["queries"], query)["query_id"]
        worst = [one for one in worst if one["query_id"] == wanted]
    return {
        **only(found, ("compared_tasks", "count", "explained", "delay_ms")),
        **{name: bounded(found[name]) for name in ("by_cause", "by_host", "advice", "doubts")},
        "worst": page_of(worst, page),
    }


def topics(result: dict[str, Any]) -> dict[str, Any]:
    """Return what keeps making tasks slow; ``topics`` is None where too few tasks tell."""
    return {"topics": bounded(result["topics"]), "doubts": bounded(result["doubts"])}


def rules(result: dict[str, Any], page: int) -> dict[str, Any]:
    """Return the proposed rules with their expected effect, and those that were rejected."""
    return {
        "rules": page_of(result["rules"], page),
        "together": bounded(result["rules_together"]),
        "rejected": bounded(result["rejected_rules"]),
        "do_not_apply": bounded(result["do_not_apply"]),
    }


def changes(result: dict[str, Any], page: int) -> dict[str, Any]:
    """Return what changed between two sets, each change with its causes."""
    return {
        **only(result, ("margin", "alpha", "total_ms")),
        "changes": page_of(result["changes"], page),
        **{name: bounded(result[name]) for name in ("different", "same", "cannot_tell", "doubts")},
    }


def what_if(result: dict[str, Any], page: int) -> dict[str, Any]:
    """Return predicted durations with their ranges, a capacity plan, or blame by removal."""
    found: dict[str, Any] = {}
    if "queries" in result:
        found = {
            **bounded(only(result, ("do", "self_check", "total"))),
            "capacities": bounded(result["capacities"]),
            "queries": page_of(result["queries"], page),
            "assumptions": bounded(result["assumptions"]),
            "refused": bounded(result["refused"]),
        }
    if "plan" in result:
        found["plan"] = bounded(result["plan"])
    if "removal_blame" in result:
        blame = result["removal_blame"]
        found["removal_blame"] = {**bounded(blame), "sources": page_of(blame["sources"], page)}
    return found


def history(result: dict[str, Any], page: int) -> dict[str, Any]:
    """Return what a store answers, its lists in pages."""
    return {
        name: page_of(part, page) if isinstance(part, list) else bounded(part)
        for name, part in result.items()
        if name not in ("schema_version", "iqcar_version", "store")
    }


def _find(every: list[dict[str, Any]], wanted: str) -> dict[str, Any]:
    """Find a query by its id or name; of several runs of a name, the one that lost most."""
    word = wanted.casefold()
    for same in (
        lambda one: one["query_id"].casefold() == word,
        lambda one: one["query_id"].casefold().endswith(f"/{word}"),
        lambda one: one["name"].casefold() == word,
        lambda one: word in one["name"].casefold(),
    ):
        found = [one for one in every if same(one)] if word else []
        if found:
            return max(found, key=lambda one: one["lost_ms"] or 0.0)
    near = ", ".join(str(bounded(one["query_id"])) for one in every[:NEAREST])
    raise UsageError(f"there is no query {bounded(wanted)!r}", "query", f"there are {near}")


PAGE_ITEMS = 20
"""Items of a list in one answer (20), unless asked for otherwise."""

MOST_ITEMS = 100
"""Most items of a list in one answer."""

MOST_INNER = 10
"""Items of a list within an item."""

MOST_TEXT = 400
"""Characters of one text; names of queries can be whole statements."""


def page_of(items: list[Any], page: int, size: int = PAGE_ITEMS) -> dict[str, Any]:
    """Return one page of a list with its place among all.

    page: from 1; a page after the last is the last.
    size: items on a page, 1 to :data:`MOST_ITEMS`.
    """
    size = min(max(size, 1), MOST_ITEMS)
    pages = max(1, ceil(len(items) / size))
    number = min(max(page, 1), pages)
    shown = items[(number - 1) * size : number * size]
    return {
        "items": [bounded(one) for one in shown],
        "page": number,
        "pages": pages,
        "total": len(items),
    }


def bounded(value: Any) -> Any:
    """Shorten texts and inner lists, and take out control characters.

    A shortened list ends with the number of items left out.
    """
    if isinstance(value, str):
        text = printable(value, LINES)
        return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"
    if isinstance(value, dict):
        return {printable(key): bounded(one) for key, one in value.items()}
    if isinstance(value, list):
        shown = [bounded(one) for one in value[:MOST_INNER]]
        left_out = len(value) - len(shown)
        return [*shown, f"… {left_out} more"] if left_out else shown
    return value


def only(item: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of an item that are named and there."""
    return {name: item[name] for name in names if name in item}
