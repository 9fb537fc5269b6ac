"""Reads the data files of the rules: schema, template of the guide, and vocabularies.

A vocabulary gives each cause, topic or kind of advice a name and sentences. None of it ever
becomes a scheduler pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from iqcar.errors import IqcarError

RULE_SCHEMA = "rule.schema.json"
"""JSON Schema of a rules file."""
HOW_TO = "how-to.md"
"""Template of the page that says how to apply compiled rules; names stand as ``$name``."""
MOST_BYTES = 1_000_000
"""Largest file that is read as a vocabulary."""


class Advice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a vocabulary: what it is called, what it means, and what to do about it."""

    name: str
    sentence: str
    advice: str


class CauseAdvice(Advice, frozen=True, forbid_unknown_fields=True):
    """A cause, and what to record besides where the plugin did not record the run."""

    unrecorded: str = ""

    def told(self, recorded: bool) -> str:
        """Return what to do; nobody is told to record what was recorded."""
        return self.advice if recorded else f"{self.advice} {self.unrecorded}".rstrip()


Entry = TypeVar("Entry", bound=msgspec.Struct)


def rules_folder() -> Path:
    """Return the folder of the data files: in the installed package, else in the repository.

    Raises FileNotFoundError if it is in neither, which an installation can never cause.
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


def read_vocabulary(
    file: str, key: str, entry: type[Entry], path: str = "", what: str = ""
) -> Mapping[str, Entry]:
    """Read a vocabulary.

    Raises IqcarError if the user's file cannot be read, is too large, or has another format; names
    the place.

    file: Name of ours in :func:`rules_folder`.
    key: Field of the file that holds the entries by name.
    entry: type Struct of an entry.
    path: A user's file in the same format, to be read instead of ours.
    what: What an error calls the user's file.
    """
    fields = [
        ("schema_version", Literal["1"]),
        ("acts_on", Literal["advice"]),
        (key, Annotated[dict[str, entry], msgspec.Meta(min_length=1)]),  # type: ignore[valid-type]
    ]
    vocabulary = msgspec.defstruct("Vocabulary", fields, forbid_unknown_fields=True)
    try:
        data = _bytes_of(path, what) if path else read_data(file).encode()
        entries: dict[str, Entry] = getattr(msgspec.json.decode(data, type=vocabulary), key)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise broken(str(error), file, path, what) from error
    return entries


def broken(problem: str, file: str, path: str, what: str) -> IqcarError:
    """Error for a file that is no vocabulary."""
    see = f"see rules/{file} for the format"
    return IqcarError(f"is no vocabulary of {what}: {problem}", path, see)


def _bytes_of(path: str, what: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise IqcarError(f"cannot be read: {reason}", path, "check the path") from error
    if len(data) > MOST_BYTES:
        raise IqcarError(f"is too large for a vocabulary of {what}", path)
    return data
