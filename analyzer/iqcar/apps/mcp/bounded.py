"""Cut results to answers of bounded size: pages of lists, shortened texts, what was left out."""

from __future__ import annotations

from math import ceil
from typing import Any

from iqcar.base.formatting import LINES, printable

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

    Parameters
    ----------
    items : list
    page : int
        From 1; a page after the last is the last.
    size : int
        Items on a page, 1 to :data:`MOST_ITEMS`.
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
