"""Check that optional packages which a command needs are installed."""

from __future__ import annotations

from importlib.util import find_spec

from iqcar.errors import IqcarError


def need(extra: str, *packages: str) -> None:
    """Check that the packages of an extra are installed.

    Raises
    ------
    IqcarError
        If one of them is missing; the advice is how to install it.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        names = " and ".join(name.replace("_", "-") for name in missing)
        raise IqcarError(f"needs {names}", "", f"pip install 'iqcar[{extra}]'")
