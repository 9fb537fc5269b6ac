"""Write JSON that shows what it holds: characters that are not seen are escaped.

Names and statements come from logs. A terminal interprets control characters in them, readers see
text in another order where it turns direction, and agents read what people do not see.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
"""Control characters beyond those that JSON escapes itself, and all that Unicode calls formats
(marks of direction, characters without width, tags) or separators of lines (Cc, Cf, Zl, Zp)."""

_ISOLATES = ("\u2068", "\u2069")
_ESCAPED = re.compile(r"(\\\\)|\\u00(?:[01][0-9a-f]|7f)")


def json_bytes(value: Any, indent: int | None = None) -> bytes:
    r"""Encode a value as JSON without unseen characters.

    value: any
        What msgspec encodes.
    indent: int, optional
        Blanks by which each level is indented; on one line by default.

    >>> json_bytes({"name": "a\u202eb"})
    b'{"name":"a\\u202eb"}'
    """
    content = msgspec.json.encode(value)
    if indent is not None:
        content = msgspec.json.format(content, indent=indent)
    if content.isascii() and b"\x7f" not in content:
        return content
    return _UNSEEN.sub(_escaped, content.decode()).encode()


def shown(content: bytes) -> str:
    """Replace unseen characters in JSON by blanks, escaped ones too, but for ends of lines.

    What keeps a text's direction to itself stays: pages put it around names.
    """
    text = _UNSEEN.sub(lambda m: m[0] if m[0] in _ISOLATES else " ", content.decode())
    return _ESCAPED.sub(lambda match: match[1] or " ", text)


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
