"""Data files that the analyzer shares with the Spark plugin."""

from __future__ import annotations

from pathlib import Path

SECRETS, NAMES = "iqcar_secrets.json", "iqcar_names.json"
SHARED = (SECRETS, NAMES)


def shared_file(name: str) -> Path:
    """Return where a data file is: in the installed package, else in the repository.

    Raises FileNotFoundError if the data file is missing, which an installation can never cause.
    """
    package = Path(__file__).resolve().parents[2]
    resources = package.parents[1] / "listener" / "src" / "main" / "resources"
    for path in (package / "data" / name, resources / name):
        if path.is_file():
            return path
    raise FileNotFoundError(f"{name} is missing from the iqcar installation at {package}")
