"""Chooses between kernels that were compiled when the package was built, and the plain functions.

``build_kernels.py`` says what a kernel is. Both compute the same numbers, bit by bit.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

PACKAGE = Path(__file__).resolve().parents[1]


def compiled(kernel: Function) -> Function:
    """Return the compiled form of a kernel, or itself where there is none."""
    found: Function = getattr(library()[0], f"call_{kernel.__name__}", kernel)
    return found


def plain_because() -> str:
    """Return why kernels are plain Python here; nothing where they are compiled."""
    return library()[1]


@cache
def library() -> tuple[Any, str]:
    """Return the extension, if it can be loaded and its sources are what they were."""
    try:
        library = import_module("iqcar._kernels")
    except ModuleNotFoundError:
        return None, "none were compiled for this Python"
    except ImportError as problem:
        return None, f"the compiled ones cannot be loaded: {problem}"
    for place, was in library.SOURCES.items():
        if zlib.crc32((PACKAGE / place).read_bytes()) != was:
            return None, f"{place} has changed since they were compiled"
    return library, ""
