"""Print the result of the experiment with two tenants of a Thrift server as Markdown."""

from __future__ import annotations

from typing import Any

import numpy as np
from tables import table

HEAD = ["arm", "victim: median", "90 %", "statements", "hog: median", "statements"]


def thrift_tenants(result: dict[str, Any]) -> str:
    """How long each tenant waited for a statement, by arm."""
    rows = [
        [arm, *_times(took), *_hog(result["hog_s"].get(arm, []))]
        for arm, took in result["victim_s"].items()
    ]
    return (
        f"`local[{result['slots']}]`; a strict cap of {result['cap_share']:.0%} of the slots. "
        "Seconds as `beeline` tells them; the hog's first statement under the cap began "
        "without.\n\n" + table(HEAD, rows)
    )


def _times(took: list[float]) -> list[str]:
    return [f"{np.median(took):.2f} s", f"{np.quantile(took, 0.9):.2f} s", str(len(took))]


def _hog(took: list[float]) -> list[str]:
    return [f"{np.median(took):.1f} s", str(len(took))] if took else ["", ""]
