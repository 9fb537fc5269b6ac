"""Deep plans are decoded as shallow ones are: nothing is lost, and what does not fit is left."""

from __future__ import annotations

import json
import random

import msgspec
import pytest

from iqcar.logs.events import lenient
from iqcar.logs.events.lenient import decode_deep
from iqcar.logs.events.operators import hash_plan, nodes_of
from iqcar.logs.events.structs import SqlAdaptive, SqlStart

HARMLESS = ("Project [a#1]", 'quo"te', "{[", "]}", "\\", '\\"]}', "é☃", "a\nb", '"children":[', "")


def chain(levels: int, rng: random.Random, blank: str = "") -> str:
    """A plan of so many levels as JSON, here and there with a branch."""
    heads, tails = [], []
    for level in range(levels):
        text = json.dumps(rng.choice(HARMLESS), ensure_ascii=False)
        heads.append(f'{{"nodeName":"P{level}",{blank}"simpleString":{text},"children":{blank}[')
        leaf = '{"nodeName":"leaf","children":[],"metrics":[]}'
        side = rng.random()
        if side < 0.1:
            heads.append(leaf + ",")
        metrics = f'[{{"name":"spill size","accumulatorId":{level},"metricType":"size"}}]'
        after = "," + leaf if side > 0.9 else ""
        tails.append(f'{after}],{blank}"metadata":{{"k":"[{{"}},"metrics":{metrics}}}')
    scan = '{"nodeName":"Scan","simpleString":"s","children":[]}'
    return "".join(heads) + scan + "".join(reversed(tails))


def event(plan: str) -> bytes:
    return f'{{"Event":"x","executionId":7,"description":"d[","sparkPlanInfo":{plan}}}'.encode()


def flat(plan: object) -> list[object]:
    return [
        (node.name, node.text, len(node.children), [(m.name, m.id, m.type) for m in node.metrics])
        for node in nodes_of(plan)
    ]


@pytest.mark.parametrize("levels", [100, 149, 150, 151, 199, 200, 201, 777, 3000])
@pytest.mark.parametrize("kind", [SqlStart, SqlAdaptive])
def test_a_deep_plan_is_what_the_lenient_decoder_makes_of_it(
    levels: int, kind: type[SqlStart]
) -> None:
    line = event(chain(levels, random.Random(levels), " " * (levels % 2)))
    expected = lenient.fit(kind, lenient.parse(line), lenient.BadNumbers())
    found = decode_deep(line, kind)
    if found is None:
        assert levels < 150  # short enough for one piece
        return
    assert found.execution == expected.execution
    assert flat(found.plan) == flat(expected.plan)
    assert hash_plan(nodes_of(found.plan)) == hash_plan(nodes_of(expected.plan))


DEEP = chain(400, random.Random(1))


@pytest.mark.parametrize(
    "line",
    [
        event(DEEP)[:-2],
        event(DEEP) + b"}",
        event(DEEP).replace(b'"P300",', b'"P300"', 1),
        event(DEEP).replace(b'"nodeName":"P300"', b'"nodeName":3', 1),
        event(DEEP).replace(b'"P300"', b'"P300', 1),
        event(DEEP.replace('"leaf"', r'"\u0001cut 1"')),
        event(DEEP.replace('"leaf"', r'"\u0001cut 99999999999999999999"')),
        event(DEEP.replace('"metadata":{"k":"[{"}', '"children":[]', 300)),
        event('{"nodeName":"x","metrics":' + "[{" * 2 + "}]" * 2 + ',"m":' + DEEP + "}"),
        b"[" * 4000 + b"]" * 4000,
        b"{" * 4000,
        b"",
    ],
)
def test_what_cannot_be_put_together_is_left_to_the_lenient_decoder(line: bytes) -> None:
    assert decode_deep(line, SqlStart) is None


def test_a_line_of_too_many_brackets_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    line = event(DEEP)
    assert decode_deep(line, SqlStart) is not None
    monkeypatch.setattr(lenient, "MAX_DEPTH", 100)
    assert decode_deep(line, SqlStart) is None


def test_the_typed_decoder_reads_the_pieces_of_no_shallow_line() -> None:
    line = event(chain(40, random.Random(3)))
    assert decode_deep(line, SqlStart) is None
    assert msgspec.json.decode(line, type=SqlStart).plan is not None
