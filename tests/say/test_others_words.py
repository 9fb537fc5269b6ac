"""What a query lost to others is said in one form everywhere, with its range."""

from __future__ import annotations

import pytest

from iqcar.enums import Resource
from iqcar.say.sentences import LostToOthers, loss_sentence, run_words

NAN = float("nan")


def test_an_amount_is_said_with_its_range_and_share() -> None:
    lost = LostToOthers(40_000.0, 12_000.0, 8_000.0, 15_000.0)
    assert lost.words == "to other queries 12.0 s (8.0 s … 15.0 s), 30 % of its run"
    assert lost.short == "12.0 s (8.0 s … 15.0 s)"
    assert run_words(20_000.0, lost, ended=True) == (
        "ran 40.0 s and lost 20.0 s (50 %); "
        "to other queries 12.0 s (8.0 s … 15.0 s), 30 % of its run"
    )


def test_without_a_replay_there_is_no_range() -> None:
    assert LostToOthers(40_000.0, 12_000.0).words == "to other queries 12.0 s, 30 % of its run"
    assert LostToOthers(40_000.0, 0.0).words == ""
    assert LostToOthers(NAN, 12_000.0).words == "to other queries 12.0 s"
    assert run_words(9.0, LostToOthers(40.0, 0.0), ended=True).endswith(
        "none of it to other queries in these logs"
    )


@pytest.mark.parametrize(
    ("resource", "told"),
    [
        (Resource.IO, "; with the plugin's disk samples it can"),
        (Resource.NETWORK, "; the plugin's samples show how busy the network was"),
        (Resource.CPU, "; with the waits that the plugin measures it can"),
        (Resource.MEMORY, "; with the waits for memory that the plugin measures it can"),
        (None, ""),
    ],
)
def test_where_nothing_and_much_are_likely_no_amount_is_said(
    resource: Resource | None, told: str
) -> None:
    lost = LostToOthers(40_000.0, 400.0, 0.0, 12_400.0, resource)
    assert lost.is_open
    assert lost.words == (
        f"to other queries between 0 and 31 % of its run: this log cannot tell{told}"
    )
    assert lost.short == "0 … 12.4 s"


def test_what_cannot_be_told_is_said_of_a_query_that_lost_nothing_else() -> None:
    lost = LostToOthers(40_000.0, 0.0, 0.0, 12_400.0, Resource.IO)
    assert loss_sentence("etl", 0.0, lost, [], names=None) == (
        "etl lost no time that could be measured. To other queries between 0 and 31 % of its run: "
        "this log cannot tell; with the plugin's disk samples it can."
    )


def test_a_narrow_range_about_little_is_no_open_question() -> None:
    assert not LostToOthers(40_000.0, 400.0, 0.0, 1_000.0).is_open
    assert not LostToOthers(40_000.0, 9_000.0, 4_000.0, 20_000.0).is_open
