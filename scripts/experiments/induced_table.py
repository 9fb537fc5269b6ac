"""The result of induced contention as a Markdown table."""

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


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"
