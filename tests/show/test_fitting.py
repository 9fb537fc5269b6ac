"""Tests: a sentence that does not fit is cut where it still says what it says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.show.terminal.analyze import fitting

DRIVER = (
    "23 % of show, 2.1 s of its 9.3 s, passes in the driver: 1.0 s between stages (not recorded "
    "815 ms, scheduling stages 223 ms), 755 ms before its first stage."
)


@pytest.mark.parametrize(
    ("room", "cut"),
    [
        (200, DRIVER),
        (140, DRIVER[: DRIVER.index(", 755")] + " …"),
        (100, DRIVER[: DRIVER.index(" (not")] + " …"),
    ],
)
def test_a_cut_leaves_no_bracket_open(room: int, cut: str) -> None:
    assert fitting(DRIVER, room) == cut


def test_a_sentence_ends_after_its_stage_or_says_that_it_goes_on() -> None:
    said = "pauses waited for single tasks: in stage 8.0 collect the longest took 10.7 s."
    assert fitting(said, 60) == "pauses waited for single tasks: in stage 8.0 collect the …"
    assert fitting(f"It waited. {said}", 16) == "It waited."


WORDS = st.lists(
    st.sampled_from(["took", "10.7 s,", "(not", "815 ms)", "4 tasks.", "stage", "1,024 MB;", "a"]),
    min_size=1,
    max_size=40,
).map(" ".join)


@given(WORDS, st.integers(20, 90))
def test_a_cut_fits_and_never_parts_a_number_from_its_unit(text: str, room: int) -> None:
    said = fitting(text, room)
    assert len(said) <= room
    assert not re.search(r"\d …$", said)
