"""Coroutines in a thread of their own: a browser of other tests keeps an event loop in this one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_apart(coroutine: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a coroutine function returns."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(coroutine())).result()
