"""Settings that a log holds: Spark properties, settings of sessions, versions; without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice

import msgspec

from iqcar.logs.events import lenient
from iqcar.logs.events.structs import NOT_FITTING
from iqcar.logs.text.redact import redact_setting

MAX_SETTING = 1_000
"""Characters kept of the name and of the value of a setting: options of a JVM have some hundred."""
MOST_SETTINGS = 5_000
"""Settings kept of one event; Databricks sets some 300."""

_REMEMBERED, _SHORT = 64, 20_000
"""So many settings of sessions of up to so many bytes are remembered with what became of them: each
query of a session repeats them. 3 MB at most."""


def settings_of(raw: msgspec.Raw) -> Mapping[str, str]:
    """Return the settings in an object of JSON by name; a value that is no text is left out."""
    text = bytes(raw)
    if len(text) <= len(b"{}"):
        return {}
    return _remembered(text) if len(text) <= _SHORT else _decoded(text)


def _decoded(text: bytes) -> Mapping[str, str]:
    try:
        found = msgspec.json.decode(text)
    except NOT_FITTING:
        try:
            found = lenient.parse(text)
        except ValueError:
            return {}
    if not isinstance(found, dict):
        return {}
    pairs = ((lenient.encodable(key), value) for key, value in found.items())
    kept = ((key, str(value)) for key, value in pairs if isinstance(value, (str, int, float)))
    return dict(
        redact_setting(key, lenient.encodable(value), MAX_SETTING)
        for key, value in islice(kept, MOST_SETTINGS)
    )


_remembered = lru_cache(_REMEMBERED)(_decoded)
