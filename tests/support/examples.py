"""How many random examples a test tries that is slower, or needs more of them, than others."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

LEAST = 3


def examples(number: int, **more: Any) -> settings:
    """Settings of a test: so many examples in a long run, and in others their share of them."""
    share = settings().max_examples / settings.get_profile("iqcar-long").max_examples
    return settings(max_examples=max(round(number * share), LEAST), **more)
