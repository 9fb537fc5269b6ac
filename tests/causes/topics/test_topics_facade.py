"""The names that `iqcar.causes.topics` offers are there, each imported when it is first used."""

from __future__ import annotations

from types import ModuleType

import pytest

import iqcar.causes.topics


@pytest.mark.parametrize("name", iqcar.causes.topics.__all__)
def test_every_name_of_the_room_can_be_imported(name: str) -> None:
    assert not isinstance(getattr(iqcar.causes.topics, name), ModuleType)


def test_a_name_that_is_not_there_is_said_so() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = iqcar.causes.topics.nothing
