"""Whose queries lost time to whose, on the page: a table per grouping that tells queries apart."""

from __future__ import annotations

from typing import Any

from iqcar.base import limits
from iqcar.diagnosis import Diagnosis
from iqcar.say.owner_losses import KIND_WORDS, groupings_that_tell, losses_by_owner, owner_lines


def owners_part(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Lay out what owners lost to whom.

    Returns
    -------
    list of dict
        One per grouping, that of ``--by`` first: by; rows: the largest pairs, with the sum of the
        others last. Empty where no query lost time or nothing tells queries apart.
    """
    found = []
    for by in groupings_that_tell(diagnosis.tables, diagnosis.settings.by):
        lines, rest = owner_lines(losses_by_owner(diagnosis, by), limits.MOST_GROUPS)
        if lines:
            rows = [*lines, rest] if rest else list(lines)
            found.append({"by": by, "rows": rows, "words": KIND_WORDS})
    return found
