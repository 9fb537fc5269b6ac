"""Compiles numeric kernels with numba, once they have enough work to pay for loading numba.

Importing numba and loading its cached kernels takes about 0.5 s, more than the rest of the analysis
of a small log. A kernel is therefore a plain Python function, which computes the same numbers,
until the steps counted for its file exceed :data:`PLAIN_STEPS`. Kernels may call kernels of another
file that they import by name; numba's cache would not notice when that file changes, or the options
that a kernel is compiled with, and is told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from types import FunctionType
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

PLAIN_STEPS = 40_000
"""Steps that the kernels of a file take in plain Python in one process, at 2 to 4 µs each: those of
three files then take at most about as long as loading numba."""

_options: dict[str, dict[str, dict[str, Any]]] = {}
"""Kernels of each file that are not compiled yet, with their compilation options."""
_compiled: dict[FunctionType, Any] = {}
"""Compiled kernels by their plain functions."""
_files: dict[str, set[str]] = {}
"""Files that the kernels of each compiled file come from, with those of the kernels they call."""
_steps: dict[str, int] = {}
_lock = Lock()


def kernel(**options: Any) -> Callable[[Function], Function]:
    """Mark a function as a kernel; options are those of ``numba.njit``."""

    def mark(function: Function) -> Function:
        _options.setdefault(function.__module__, {})[function.__name__] = options
        return function

    return mark


def count_steps(module: str, steps: int) -> None:
    """Count steps that kernels are about to take; compile their file's kernels if there are many.

    Parameters
    ----------
    module : ``__name__`` of the file with the kernels, which compiled ones replace.
    steps : about how often the innermost statement of a kernel runs.
    """
    if module not in _options:
        return
    with _lock:
        _steps[module] = _steps.get(module, 0) + steps
        if _steps[module] > PLAIN_STEPS and module in _options:
            _compile(module)


def _compile(module: str) -> None:
    """Replace the kernels of a file, and those that it imports, by compiled ones."""
    from numba import njit
    from numba.core.options import DefaultOptions

    names = vars(sys.modules[module])
    files = _files[module] = {str(sys.modules[module].__file__)}
    for name, value in list(names.items()):
        source = getattr(value, "__module__", module)
        if not isinstance(value, FunctionType) or source == module:
            continue
        if value.__name__ in _options.get(source, {}):
            _compile(source)
        if value in _compiled:
            names[name] = _compiled[value]
            files |= _files[source]
    for name, options in _options[module].items():
        # Options of numba's own, which only make kernels faster, may come and go.
        known = {
            option: value
            for option, value in options.items()
            if not option.startswith("_") or hasattr(DefaultOptions, option)
        }
        plain = names[name]
        names[name] = _compiled[plain] = njit(cache=True, **known)(plain)
        _watch(names[name], files, known)
    del _options[module]


def _watch(dispatcher: Any, files: set[str], options: dict[str, Any]) -> None:
    """Let numba's cache of a kernel be stale when one of these files or an option has changed.

    The cache compares one stamp, by default of the kernel's own file. If numba keeps it elsewhere
    one day, a change in another file is not noticed until this one changes.
    """
    cached: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(cached, "_source_stamp"):
        stats = [Path(file).stat() for file in sorted(files)]
        stamps = tuple((stat.st_mtime, stat.st_size) for stat in stats)
        cached._source_stamp = (*stamps, tuple(sorted(options.items())))
