"""Write JSON that shows what it holds: characters that are not seen are escaped.

Names and statements come from logs. A terminal interprets control characters in them, readers see
text in another order where it turns direction, and agents read what people do not see.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_UNSEEN = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xc2\xad|\xd8\x9c|\xe1\xa0\x8e|\xe2\x80[\x8b-\x8f\xa8-\xae]"
    rb"|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xef\xbf[\xb9-\xbb]|\xf3\xa0[\x80\x81][\x80-\xbf]"
)
"""Control characters beyond those that JSON escapes itself, marks of direction, separators of
lines, characters without width, and tags, in UTF-8."""


def json_bytes(value: Any, indent: int | None = None) -> bytes:
    r"""Encode a value as JSON without unseen characters.

    Parameters
    ----------
    value : any
        What msgspec encodes.
    indent : int, optional
        Blanks by which each level is indented; on one line by default.

    >>> json_bytes({"name": "a\u202eb"})
    b'{"name":"a\\u202eb"}'
    """
    content = msgspec.json.encode(value)
    return seen(content if indent is None else msgspec.json.format(content, indent=indent))


def seen(content: bytes) -> bytes:
    """Escape unseen characters in JSON, where they can stand in texts only."""
    if content.isascii() and b"\x7f" not in content:
        return content
    return _UNSEEN.sub(_escaped, content)


def shown(content: bytes) -> bytes:
    """Replace unseen characters in JSON by blanks, escaped ones too, but for ends of lines.

    What keeps a text's direction to itself stays: pages put it around names.
    """
    if not content.isascii() or b"\x7f" in content:
        content = _UNSEEN.sub(lambda match: match[0] if match[0] in _ISOLATES else b" ", content)
    return _ESCAPED.sub(lambda match: match[1] or b" ", content) if b"\\u00" in content else content


_ISOLATES = ("\u2068".encode(), "\u2069".encode())
_ESCAPED = re.compile(rb"(\\\\)|\\u00(?:[01][0-9a-f]|7f)")


def _escaped(match: re.Match[bytes]) -> bytes:
    units = match[0].decode().encode("utf-16-be")
    return b"".join(b"\\u%02x%02x" % (units[at], units[at + 1]) for at in range(0, len(units), 2))
