"""Embed data and program text in HTML so that neither can end its element."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec

from iqcar.base.files.json_text import shown


def json_for_html(data: Any) -> str:
    r"""Encode data for ``<script type="application/json">``.

    In such an element only ``</script`` and ``<!--`` mean anything; without ``<`` there is
    neither. Unseen characters, U+2028 and U+2029 among them, become blanks.

    >>> json_for_html({"name": "</script>"})
    '{"name":"\\u003c/script>"}'
    """
    return shown(msgspec.json.encode(data)).replace("<", "\\u003c")


def source_hash(text: str) -> str:
    """Hash of an inline script or style as a Content Security Policy names it."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
