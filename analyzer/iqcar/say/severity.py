"""Says how badly a query was hit in a word: never by colour alone."""

from __future__ import annotations

from iqcar.enums import Kind

SEVERE_SHARE = 0.5
"""Half of a query's run lost to others: it would have ended in half the time or less."""
MARKED_SHARE = 0.2
"""A fifth is what people notice without measuring."""
SLIGHT_SHARE = 0.05
"""Below a twentieth two runs of one query differ as much by chance (as for replayed rules)."""
LEAST_LOST_MS = 500.0
"""Below half a second nobody waited for anything, whatever share of a short query that is."""


class Severity(Kind):
    """How badly a query was hit."""

    SEVERE = "severe", "It lost half of its run or more to other queries."
    MARKED = "marked", "It lost a fifth of its run or more to other queries."
    SLIGHT = "slight", "It lost a twentieth of its run or more to other queries."
    OWN = "own", "It lost a fifth of its run or more, but not to other queries."
    QUIET = "quiet", "It lost little."

    @property
    def words(self) -> str:
        """The severity as a reader sees it."""
        return "within itself" if self is Severity.OWN else str(self)


HELD_UP = (Severity.SEVERE, Severity.MARKED, Severity.SLIGHT)
"""A query of these was held up by others."""


def severity_of(ran_ms: float, lost_ms: float, to_others_ms: float) -> Severity:
    """Say how badly a query was hit.

    Parameters
    ----------
    ran_ms, lost_ms, to_others_ms : float
        Its duration, what of it was lost, and what of that to other queries.
    """
    if not ran_ms > 0:
        return Severity.QUIET
    if to_others_ms >= LEAST_LOST_MS:
        share = to_others_ms / ran_ms
        for least, word in (
            (SEVERE_SHARE, Severity.SEVERE),
            (MARKED_SHARE, Severity.MARKED),
            (SLIGHT_SHARE, Severity.SLIGHT),
        ):
            if share >= least:
                return word
    others_not = lost_ms - to_others_ms
    if others_not >= LEAST_LOST_MS and others_not / ran_ms >= MARKED_SHARE:
        return Severity.OWN
    return Severity.QUIET
