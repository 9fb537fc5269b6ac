"""The results of induced contention as Markdown tables."""

from __future__ import annotations

from typing import Any

from tables import seconds, table


def induced_contention(result: dict[str, Any]) -> str:
    """What the victim's iQC-Graph shows in each phase."""
    rows = []
    for phase in result["phases"]:
        cells = [phase["phase"], str(phase["queries"]), seconds(phase["duration_s"])]
        for resource in ("cpu", "io"):
            loss = phase["losses"][resource]
            cells.append(f"{loss['share']:.0%}")
            cells.append(f"{loss['share_loaded']:.0%} / {loss['share_other']:.0%}")
            cells.append(f"{_number(loss['ratp_loaded'])} / {_number(loss['ratp_other'])}")
        blamed = phase["blamed_on_culprit"]
        cells.append("–" if blamed is None else f"{blamed:.0%}")
        rows.append(cells)
    head = ["phase", "queries", "duration"]
    for word in ("CPU", "IO"):
        head += [f"lost to {word}", f"{word}: {result['loaded']} / other", f"{word} RATP"]
    return (
        "Losses are shares of the query's duration (level 2 of its iQC-Graph), then by host (level "
        "3), then the median RATP of its waits for the processor and for reads by host; blame is "
        "the culprit's share of all that was lost.\n\n"
        f"{table([*head, 'blamed on the culprit'], rows)}"
    )


def induced_memory(result: dict[str, Any]) -> str:
    """What the victim's iQC-Graph shows without and with a hog that holds memory."""
    rows = []
    for phase in result["phases"]:
        memory = phase["losses"]["memory"]
        cells = [phase["phase"], str(phase["queries"]), seconds(phase["duration_s"])]
        cells += [f"{memory[part]:.0%}" for part in ("share", "share_loaded", "share_other")]
        for part in ("memory_blamed_on_hog", "blamed_on_hog"):
            blamed = phase[part]
            cells.append("–" if blamed is None or not phase["hogs"] else f"{blamed:.0%}")
        rows.append(cells)
    head = ["phase", "queries", "duration", "lost to memory", f"on {result['loaded']}"]
    head += ["on the other host", "of that, blamed on the hog", "of all lost, blamed on the hog"]
    return (
        "Losses are shares of the query's duration (level 2 of its iQC-Graph), then by host (level "
        f"3). The hog runs on {result['loaded']}.\n\n"
        f"{table(head, rows)}"
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"
