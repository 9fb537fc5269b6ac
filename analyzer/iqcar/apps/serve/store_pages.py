"""The page of a store: aggressive queries, slow nodes, who lost to whom, changes, one query."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from iqcar.apps.serve.handling import read_query, service_of
from iqcar.apps.serve.responses import render
from iqcar.apps.serve.store_api import StoreQuery, in_turn, part_of, recently

SHOWN = 15
"""Rows of each table."""
RANGES = {"7 days": 7, "30 days": 30, "90 days": 90, "a year": 365}


async def store_page(request: Request) -> Response:
    """Show what a store knows of some time, or the runs of one query."""
    service = service_of(request)
    wanted = read_query(request, StoreQuery)

    def work() -> dict[str, Any]:
        from iqcar import history
        from iqcar.history.ask_store import told_duration
        from iqcar.show.json.history import top_to_dict
        from iqcar.show.pictures.history_pictures import losses_to_others, runs_over_time

        about = part_of(service, wanted)
        if wanted.query:
            runs = history.trend(about, wanted.query)
            fingerprint = str(runs["fingerprint"].iloc[0])
            changes = history.changes(about, fingerprint).changes
            return {
                "name": str(runs["name"].iloc[-1]),
                "picture": runs_over_time(runs, changes).svg,
                "runs": list(runs.tail(SHOWN).iloc[::-1].itertuples(index=False)),
                "told_duration": told_duration,
                "total": len(runs),
                "changes": changes,
                "set_aside": about.store.set_aside_lines(),
            }
        top = history.top(about, wanted.period, SHOWN)
        losses = history.who(about, wanted.by)
        found = history.changes(about)
        return {
            "periods": sorted({p for f in vars(top).values() for p in f["period"]}, reverse=True),
            "top": top_to_dict(top),
            "picture": losses_to_others(losses).svg if len(losses) else "",
            "losses": losses.head(SHOWN).to_dict("records"),
            "more_losses": max(0, len(losses) - SHOWN),
            "changes": found.changes[:SHOWN],
            "series": found.series,
            "set_aside": about.store.set_aside_lines(),
        }

    answer = await in_turn(service, work)
    ranges = {words: recently(days) for words, days in RANGES.items()}
    return HTMLResponse(
        render("history.html", wanted=wanted, store=service.store, ranges=ranges, **answer)
    )
