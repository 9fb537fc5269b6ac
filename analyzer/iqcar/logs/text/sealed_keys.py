"""Takes keys out of calls that encrypt or decrypt: `aes_encrypt(text, 'key')`."""

from __future__ import annotations

from iqcar.logs.text.linear import compiled

_PIECE = compiled(
    r"(?i:(?:aes|pgp_sym)_(?:en|de)crypt)[ \t]*\("
    r"|'(?:[^'\\]|\\(?s:.)|'')*(?:'|\\?\z)"
    r"|\"(?:[^\"\\]|\\(?s:.))*(?:\"|\\?\z)"
    r"|[(),]"
)
"""The start of such a call, quoted text, or what calls are made of."""

_CALLS = (b"crypt(", b"crypt (", b"crypt\t(")


def without_keys(text: bytes, mark: bytes) -> bytes:
    """Replace what is quoted in the second argument of such calls; calls may be nested.

    >>> without_keys(b"SELECT aes_encrypt(name, 'key', 'GCM')", b"?")
    b"SELECT aes_encrypt(name, ?, 'GCM')"
    """
    if not any(call in text.lower() for call in _CALLS):
        return text
    pieces: list[bytes] = []
    done = 0
    commas: list[int] = []  # of each open bracket; far below zero for one that opens no such call
    inside = 0  # brackets whose second argument this is
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece.endswith(b"(") and piece[:1] not in (b"'", b'"'):
            commas.append(0 if len(piece) > 1 else -len(text) - 1)
        elif not commas:
            continue
        elif piece == b",":
            commas[-1] += 1
            inside += (commas[-1] == 1) - (commas[-1] == 2)
        elif piece == b")":
            inside -= commas.pop() == 1
        elif inside:
            start, end = match.span()
            pieces += text[done:start], mark
            done = end
    return b"".join((*pieces, text[done:])) if pieces else text
