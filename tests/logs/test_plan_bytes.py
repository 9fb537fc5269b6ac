"""What may differ between plans of one pattern is what the rule says, byte by byte."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iqcar.logs.events.known_plans import PlanPattern, cut_line

MAY_DIFFER = re.compile(
    rb'(?<=Id":)(?:0|[1-9][0-9]{0,14})(?=[,}])|(?<=Id": )(?:0|[1-9][0-9]{0,14})(?=[,}])'
    rb"|(?<=#)(?<![0-9])[0-9]{1,15}(?![0-9])|(?<= )[0-9]{1,15}(?=\))"
    rb"|(?<=\[plan_id=)[0-9]{1,15}(?=\])"
)
PIECES = st.lists(
    st.sampled_from(
        (b'"accumulatorId":12,', b'"accumulatorId": 345}', b'Id":0,', b"#12", b"#1#2",
         b" 7)", b" 77)", b"[plan_id=3]", b"plan_id=3]", b"a1", b"#1234567890123456", b"5", b" 5",
         b'Id":5e3,', b'Id":1.5,', b'Id":6', b"}", b"x=4]", b"{", b"\xc3\xa9", b'd":8,')
    ),
    max_size=12,
)  # fmt: skip


@given(PIECES)
@example([b'"accumulatorId": 345}', b"[plan_id=3]", b" plan_id=3]"])
def test_a_pattern_is_the_text_between_numbers_that_may_differ(pieces: list[bytes]) -> None:
    """The rule written as one regular expression, and a byte changed in every place."""
    plan = b'{"nodeName":"' + b"".join(pieces) + b"}"
    pattern = PlanPattern(plan)
    free = [match.span() for match in MAY_DIFFER.finditer(plan)]
    ids = [span for span in free if re.search(rb'Id": ?\Z', plan[: span[0]])]
    assert pattern.accumulators == [int(plan[start:end]) for start, end in ids]
    assert pattern.read(plan + b" ") is None
    for place, instead in product(range(len(plan)), (b"0", b"8", b"/", b":")):
        other = plan[:place] + instead + plan[place + 1 :]
        number = next((span for span in free if span[0] <= place < span[1]), None)
        expected = [int(other[start:end]) for start, end in ids] if instead.isdigit() else None
        if number is None:
            expected = None
        elif number in ids and instead == b"0" and place == number[0] and number[1] - place > 1:
            expected = None  # no number of JSON
        assert pattern.read(other) == (pattern.accumulators if other == plan else expected)


def skeleton(plan: bytes) -> bytes:
    """The plan with a mark in the place of each number that may differ."""
    return MAY_DIFFER.sub(lambda match: b"\xff", plan)


@given(PIECES, st.lists(st.sampled_from([b"", b"7", b"12"]), min_size=30, max_size=30))
@example([b"# ", b"#12"], [b"", b"5", *[b""] * 28])
def test_plans_have_one_skeleton_if_they_are_alike_without_numbers_that_may_differ(
    pieces: list[bytes], numbers: list[bytes]
) -> None:
    plan = b'{"nodeName":"' + b"".join(pieces) + b"}"
    drawn = iter(numbers)
    other = re.sub(rb"(?<=[# :=])[0-9]*", lambda match: next(drawn, match[0]), plan)
    is_same = skeleton(plan) == skeleton(other)
    assert (PlanPattern(plan).skeleton == PlanPattern(other).skeleton) == is_same


@pytest.mark.parametrize(
    "line",
    [
        b'{"sparkPlanInfo" :{"a":1}}', b'{"sparkPlanInfo":null}', b'{"sparkPlanInfo":{', b"",
        b'"sparkPlanInfo":', b'{"x":{"a":1}}', b"x" * 15 + b'{"a":1}}',
    ],
)  # fmt: skip
def test_a_line_of_another_spelling_is_not_cut(line: bytes) -> None:
    assert cut_line(line) is None
