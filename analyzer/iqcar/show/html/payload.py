"""The data of the page's program, as one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iqcar.base.formatting import REQUEST_NAMES, RESOURCE_NAMES
from iqcar.causes.blame.blame_tables import BLAME_KINDS, REST
from iqcar.diagnosis import Diagnosis
from iqcar.enums import REQUESTS, BlameKind, Resource
from iqcar.say.blamed import cause_meaning, cause_name
from iqcar.show.html.names import PageNames
from iqcar.show.html.payload_explore import code_names, explore_payload, explored_queries
from iqcar.show.html.payload_figures import figures_payload
from iqcar.show.html.payload_fixed import fixed_figures
from iqcar.show.html.payload_matrix import matrix_payload
from iqcar.show.pictures.palette import BLAME_COLOURS, OTHERS, RESOURCE_COLOURS, cause_colour
from iqcar.show.pictures.timeline_payload import timeline_payload

if TYPE_CHECKING:
    from iqcar.show.html.blame_rows import BlameRows


def page_payload(diagnosis: Diagnosis, blame_rows: BlameRows) -> dict[str, Any]:
    """Lay out the data of every picture; its size depends on what is shown, not on the tasks."""
    names = PageNames(diagnosis)
    codes = code_names()
    for one, request in zip(codes["requests"], REQUESTS, strict=True):
        one["name"] = REQUEST_NAMES[request]
    explore = explore_payload(diagnosis, blame_rows, names)
    matrix = matrix_payload(blame_rows, names)
    lost = diagnosis.lost_ms()
    with_loss = [query for query in explored_queries(diagnosis) if lost[query] > 0]
    return {
        **codes,
        "resources": [
            {
                "key": str(one),
                "name": RESOURCE_NAMES[one],
                "colour": RESOURCE_COLOURS[one],
                "sentence": one.sentence,
            }
            for one in Resource
        ],
        "kinds": [
            {"key": str(one), "colour": BLAME_COLOURS[one], "sentence": one.sentence}
            for one in BLAME_KINDS[:REST]  # blame_rows show a rest as other queries
        ],
        "causes": _causes(),
        "othersColour": OTHERS,
        "explore": explore,
        "matrix": matrix,
        "figures": figures_payload(diagnosis, with_loss),
        "fixed": fixed_figures(diagnosis),
        "timeline": timeline_payload(
            diagnosis.tables, diagnosis.waits, diagnosis.graph, diagnosis.targets
        ),
        "people": names.to_dict(),
    }


def _causes() -> dict[str, dict[str, str]]:
    """Describe each cause that is no query; known causes by what was waited for."""
    keys: list[tuple[str, BlameKind, Resource | None]] = [
        (str(BlameKind.OWN), BlameKind.OWN, None),
        *((f"known-{one}", BlameKind.KNOWN, one) for one in Resource),
        (str(BlameKind.UNATTRIBUTED), BlameKind.UNATTRIBUTED, None),
    ]
    return {
        key: {
            "name": cause_name(kind, one),
            "colour": cause_colour(kind, one),
            "sentence": cause_meaning(kind, one),
        }
        for key, kind, one in keys
    }
