"""Describes the predicted effect of rules: numbers, and the sentence that says them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from iqcar.base.units import change_words, percent
from iqcar.rules.rule import SLOWER_SHARE, Outlook, in_a_sentence

MAX_FINGERPRINTS = 100
"""Victims whose fingerprints a rule lists; their durations are summed however many there are."""


@dataclass(frozen=True)
class Expected:
    """Predicted effect of a rule, or of several; durations of several runs are summed.

    outlook: what it comes to.
    sentence: the same in words.
    victims: runs that are to gain.
    victim_fingerprints: which recurring queries those are runs of, at most
        :data:`MAX_FINGERPRINTS`.
    victims_before_ms, victims_after_ms, victims_change_percent: their duration.
    queries, before_ms, after_ms, change_percent: of all queries that ended, in the applications
        that the rule acts in.
    slower: how many of them get slower by more than 5 %.
    slowest: query id, name, before_ms, after_ms and change_percent of the worst of those.
    replay_error_percent, replay_worst_error_percent: how far the replay of the recorded shares is
        off, as a share of each query's duration: the median, and the worst.
    assumptions: what the prediction rests on.
    model: what is shared in the replays: ``slots``, or ``devices`` (slots, disks, networks and
        processors of hosts).
    source_before_ms, source_after_ms, source_change_percent: of a cap, the duration of the runs
        that it holds back; else None.
    idle_slot_ms, idle_slots_percent: of a cap, the time that slots stand free because of it, and
        that as a share of the time of all slots from the first start to the last end; else None.
    """

    outlook: str
    sentence: str
    victims: int
    victim_fingerprints: list[str]
    victims_before_ms: float
    victims_after_ms: float
    victims_change_percent: float
    queries: int
    before_ms: float
    after_ms: float
    change_percent: float
    slower: int
    slowest: dict[str, Any] | None
    replay_error_percent: float | None
    replay_worst_error_percent: float | None
    assumptions: str
    model: str
    source_before_ms: float | None = None
    source_after_ms: float | None = None
    source_change_percent: float | None = None
    idle_slot_ms: float | None = None
    idle_slots_percent: float | None = None

    @property
    def harms(self) -> bool:
        """Whether it comes to harm."""
        return bool(self.outlook == Outlook.HARMS.value)

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in JSON: without a price where there is no cap."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in PRICE_FIELDS or self.source_before_ms is not None
        }


PRICE_FIELDS = (
    "source_before_ms", "source_after_ms", "source_change_percent", "idle_slot_ms",
    "idle_slots_percent",
)  # fmt: skip
"""Fields that only the effect of a cap has."""

_FIRST = {
    Outlook.HELPS: "",
    Outlook.UNSURE: "within the replay's own error, ",
    Outlook.NO_GAIN: "no gain, ",
    Outlook.HARMS: "more harm than good, ",
}


OF_TARGET, OF_SOURCE, OF_ALL = (
    ("it", "its {} runs"),
    ("its victim", "its {} victims"),
    ("the victim", "the {} victims"),
)
"""What victims are called in a sentence about a rule for them, for a source, and about all."""


def sentence_of(expected: Expected, outlook: Outlook, called: tuple[str, str]) -> str:
    """Say it in words: who gains, and what it costs."""
    one, several = called
    who = one if expected.victims == 1 else several.format(expected.victims)
    text = (
        f"{_FIRST[outlook]}{who} {_time(expected.victims_before_ms)} → "
        f"{_time(expected.victims_after_ms)} ({change_words(expected.victims_change_percent)}), "
        f"all {expected.queries} queries together {change_words(expected.change_percent, 1)}"
    )
    if expected.slowest is not None:
        verb = "query gets" if expected.slower == 1 else "queries get"
        text += (
            f"; {expected.slower} {verb} more than {percent(SLOWER_SHARE)} slower, most "
            f"{in_a_sentence(expected.slowest['name'])} "
            f"({change_words(expected.slowest['change_percent'])})"
        )
    return text + _price_of_cap(expected)


def _price_of_cap(expected: Expected) -> str:
    """Say what a cap costs those that it holds back, and in idle slots."""
    before, after = expected.source_before_ms, expected.source_after_ms
    if before is None or after is None:
        return ""
    text = (
        f"; the capped query takes {_time(before)} → {_time(after)} "
        f"({change_words(expected.source_change_percent or 0.0)})"
    )
    if not expected.idle_slot_ms:
        return f"{text}, and no slot stands idle for it"
    share = expected.idle_slots_percent
    of_all = "" if share is None else f" ({percent(share / 100, 1)} of the time of all slots)"
    return f"{text}, and {expected.idle_slot_ms / 1000:.1f} slot-seconds stand idle for it{of_all}"


def _time(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"
