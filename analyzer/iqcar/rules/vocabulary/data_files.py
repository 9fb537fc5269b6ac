"""Where the data files of the rules are: schema, and causes with what helps against them."""

from __future__ import annotations

from pathlib import Path

RULE_SCHEMA = "rule.schema.json"
"""JSON Schema of a rules file."""

ADVICE = "advice.json"
"""Causes of lost time: name, sentence, and what a Spark engineer would do about each."""


HOW_TO = "how-to.md"
"""Template of the page that says how to apply compiled rules; names stand as ``$name``."""


def rules_folder() -> Path:
    """Return the folder of the data files: in the installed package, else in the repository.

    Raises
    ------
    FileNotFoundError
        If it is in neither, which an installation can never cause.
    """
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "data" / "rules", package.parents[1] / "rules"):
        if (folder / RULE_SCHEMA).is_file():
            return folder
    raise FileNotFoundError(f"{RULE_SCHEMA} is missing from the iqcar installation at {package}")


def read_data(name: str) -> str:
    """Text of one data file."""
    return (rules_folder() / name).read_text(encoding="utf-8")


def rule_schema() -> str:
    """JSON Schema of a rules file, as text."""
    return read_data(RULE_SCHEMA)
