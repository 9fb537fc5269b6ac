"""Names of a package, imported from its modules when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package (PEP 562).

    package: its ``__name__``.
    homes: the names it offers, by the module below it that defines them.
    """
    modules = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def imported(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return imported
