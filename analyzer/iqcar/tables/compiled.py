"""Compile numeric kernels with numba, once they have enough work to pay for loading numba.

Importing numba and loading its cached kernels takes about 0.7 s, more than the rest of the analysis
of a small log. A kernel is therefore a plain Python function, which computes the same numbers,
until the steps counted for its file exceed :data:`PLAIN_STEPS`. Kernels call only kernels of their
own file: numba's cache does not notice changes of a callee in another file.
"""

from __future__ import annotations

import sys
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = TypeVar("Function", bound=Callable[..., Any])

PLAIN_STEPS = 5_000
"""Steps that the kernels of a file take in plain Python in one process, at some 10 µs each."""

_options: dict[str, dict[str, dict[str, Any]]] = {}
"""Kernels of each file that are not compiled yet, with their compilation options."""
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
    module : str
        ``__name__`` of the file with the kernels, which compiled ones replace.
    steps : int
        About how often the innermost statement of a kernel runs.
    """
    if module not in _options:
        return
    with _lock:
        _steps[module] = _steps.get(module, 0) + steps
        if _steps[module] > PLAIN_STEPS and module in _options:
            from numba import njit
            from numba.core.options import DefaultOptions

            names = vars(sys.modules[module])
            for name, options in _options[module].items():
                # Options of numba's own, which only make kernels faster, may come and go.
                known = {
                    option: value
                    for option, value in options.items()
                    if not option.startswith("_") or hasattr(DefaultOptions, option)
                }
                names[name] = njit(cache=True, **known)(names[name])
            del _options[module]
