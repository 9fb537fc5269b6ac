"""Colours can be told apart, by everybody, and stay with what they stand for."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from iqcar.enums import BlameKind, Resource
from iqcar.show.pictures.theme import (
    _HUES,
    ADDED,
    AFTER,
    BEFORE,
    BLAME_COLOURS,
    COMPUTING,
    FASTER,
    GONE,
    RESOURCE_COLOURS,
    SLOWER,
    query_colours,
    stable_colours,
)
from tests.support.random_tables import random_input

MACHADO = {
    "none": np.eye(3),
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
"""Machado, Oliveira and Fernandes 2009: linear RGB as people with each blindness see it."""


def seen_as(colour: str, blindness: str) -> np.ndarray:
    """CIE Lab of a colour as seen with a colour blindness."""
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(MACHADO[blindness]) @ linear, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ linear / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def seen(colour: str) -> np.ndarray:
    return seen_as(colour, "none")


@pytest.mark.parametrize("blindness", MACHADO)
@pytest.mark.parametrize("colours", [RESOURCE_COLOURS, BLAME_COLOURS], ids=["resources", "blame"])
def test_colours_differ_for_people_with_colour_blindness(blindness: str, colours) -> None:
    # A difference of 10 in Lab (ΔE 1976) is plain to see side by side; 2.3 is just noticeable.
    for (_, one), (_, other) in combinations(colours.items(), 2):
        distance = np.linalg.norm(seen_as(one, blindness) - seen_as(other, blindness))
        assert distance > 10, (one, other)


@pytest.mark.parametrize("blindness", MACHADO)
@pytest.mark.parametrize(
    "pair", [(BEFORE, AFTER), (SLOWER, FASTER), (SLOWER, ADDED), (SLOWER, GONE), (ADDED, GONE)]
)
def test_colours_of_a_comparison_differ_side_by_side(blindness: str, pair) -> None:
    one, other = (seen_as(colour, blindness) for colour in pair)
    assert np.linalg.norm(one - other) > 10


def test_no_two_queries_or_causes_look_nearly_alike() -> None:
    colours = [*_HUES, BLAME_COLOURS[BlameKind.OWN], BLAME_COLOURS[BlameKind.KNOWN]]
    for one, other in combinations([*map(seen, colours)], 2):
        assert np.linalg.norm(one - other) > 20


@pytest.mark.parametrize("paper", ["#ffffff", "#14181d"], ids=["light", "dark"])
def test_every_colour_is_seen_on_both_papers(paper: str) -> None:
    def light(colour: str) -> float:
        return float(((seen(colour)[0] + 16) / 116) ** 3) + 0.05

    for colour in (*RESOURCE_COLOURS.values(), *BLAME_COLOURS.values(), *_HUES, COMPUTING):
        contrast = light(colour) / light(paper)
        assert max(contrast, 1 / contrast) > 2.2, colour


def test_every_resource_and_kind_of_blame_has_one_colour() -> None:
    assert set(RESOURCE_COLOURS) == set(Resource)
    assert set(BLAME_COLOURS) == set(BlameKind)


def test_a_recurring_query_keeps_its_colour_and_different_ones_differ() -> None:
    keys = [f"fingerprint-{i}" for i in range(36)]
    colours = stable_colours(keys)
    assert len(set(colours)) == 36
    assert stable_colours([keys[3], keys[3]]) == [stable_colours([keys[3]])[0]] * 2
    assert stable_colours([*keys, "one more"])[:36] == colours


def test_queries_without_a_fingerprint_are_coloured_by_id() -> None:
    queries = random_input(5, 1, 1, 1, 8, 2, 0).tables.queries
    assert len(set(query_colours(queries))) == 8
