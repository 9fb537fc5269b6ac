"""Texts from logs: replaced in time that grows with their length, secrets taken out, names unified.

Python's own `re` tries one way after the other; of a text made for it, or just of a long one, it
needs the square of its length or worse. RE2 follows all ways at once. It works on UTF-8, so texts
are encoded once for all patterns. It knows no looking ahead or behind: a pattern holds what must
stand around a match too, and its first group is the part that is replaced.

What users write into descriptions, SQL and error messages is searched for what looks like a secret,
and cut to a bounded length. Of a setting the name decides too: where it names a secret, nothing of
its value is kept. Names of queries lose what differs between their runs: dates, times, ids, numbers
of runs. The Spark plugin does the same (Secrets.java, NameFamily.java, with the same data files),
because names that users gave are compared, and rules are matched by them. Letters that are newer
than the Unicode of a driver's Java (13 in Java 17) are none to the plugin: beside them the two may
differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import re2

Match = Any

WORD = r"\p{L}\p{N}_"
"""What Python's ``\\w`` stands for, to be put between square brackets; RE2's knows only ASCII."""

BLANK = "\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What Python's ``\\s`` stands for, to be put between square brackets."""

START = rf"(?:^|[^{WORD}])"
"""The start of the text, or a character before a word."""

STOP = rf"(?:\z|[^{WORD}])"
"""The end of the text, or a character behind a word."""

END = r"\n?\z"
"""The end of the text, or of its last line: Python's ``$``."""


class Replacement(NamedTuple):
    """What is replaced, and by what.

    held: what each match holds: texts without it are not searched.
    pattern: its first group is the part that is replaced; a match without it is passed over.
    instead: makes of a match what stands in that place.
    back: whether the last byte of a replaced part may be what stands before the next one.
    """

    held: bytes
    pattern: Any
    instead: Callable[[Match], bytes]
    back: bool = False

    def apply(self, text: bytes) -> bytes:
        """Return a text with every match replaced, from left to right."""
        if self.held not in text:
            return text
        search, done = self.pattern.search, 0
        pieces: list[bytes] = []
        match = search(text)
        while match is not None:
            start, end = match.span(1)
            if start < 0:
                end = max(match.end(), done)
            else:
                pieces += text[done:start], self.instead(match)
                done = end
            match = search(text, max(end - self.back, 0)) if end < len(text) else None
        if not pieces:
            return text
        pieces.append(text[done:])
        return b"".join(pieces)


class _Pattern:
    """A pattern that is compiled when it is first used: some take a tenth of a second."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    @cached_property
    def _compiled(self) -> Any:
        return re2.compile(self._pattern, _OPTIONS)

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(self._compiled, name)
        return found


def compiled(pattern: str) -> Any:
    """Return a pattern for texts in UTF-8, with the methods of those of RE2."""
    return _Pattern(pattern)


def replacement(held: str, pattern: str, instead: str, back: bool = False) -> Replacement:
    r"""Make a replacement by fixed text, in which ``\2`` and so on stand for groups."""
    pieces = instead.split("\\")
    first = pieces[0].encode()
    rest = [(int(piece[0]), piece[1:].encode()) for piece in pieces[1:]]

    def fill(match: Match) -> bytes:
        return first + b"".join((match[group] or b"") + text for group, text in rest)

    def same(_: Match) -> bytes:
        return first

    return Replacement(held.encode(), compiled(pattern), fill if rest else same, back)


def encoded(text: str) -> bytes:
    """Encode a text; half a surrogate pair, which is no text, becomes a question mark."""
    return text.encode("utf-8", "replace")


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


_OPTIONS = _options()


SECRETS, NAMES = "iqcar_secrets.json", "iqcar_names.json"
SHARED = (SECRETS, NAMES)


def shared_file(name: str) -> Path:
    """Return where a data file is: in the installed package, else in the repository.

    Raises FileNotFoundError if the data file is missing, which an installation can never cause.
    """
    package = Path(__file__).resolve().parents[1]
    resources = package.parents[1] / "listener" / "src" / "main" / "resources"
    for path in (package / "data" / name, resources / name):
        if path.is_file():
            return path
    raise FileNotFoundError(f"{name} is missing from the iqcar installation at {package}")


@lru_cache(1)
def _data() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(shared_file(SECRETS).read_text(encoding="utf-8"))
    return read


def token_shapes() -> str:
    """Return one expression of all shapes, to be put between brackets."""
    return "|".join(f"(?:{shape})" for shape in _data()["shapes"].values())


def secret_places() -> list[str]:
    """Return the expressions of places in which the first group is a secret."""
    names, wide = _data()["names"], _data()["wide_names"]
    named = [one.replace("%N", names).replace("%C", wide) for one in _data()["contexts"].values()]
    return [
        place.replace("%W", WORD).replace("%S", BLANK).replace("%s", f"[{BLANK}]")
        for place in named
    ]


def look_alike(pattern: str) -> str:
    """Return an expression of letters in which each may be one that looks like it.

    Between them may be what nobody sees.
    """
    alike, unseen = _data()["lookalikes"], _data()["invisible"]
    return "".join(
        f"[{letter}{alike[letter]}][{unseen}]{{0,4}}" if letter in alike else letter
        for letter in pattern
    )


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


REDACTED = "*(redacted)"
"""What stands in a secret's place; Spark writes `*********(redacted)`."""

MAX_TEXT = 10_000
"""Characters kept of one text: a generated SQL statement can have millions."""

_REMEMBERED, _SHORT = 4096, 300
"""So many texts of up to so many characters are remembered with what became of them: the same few
names stand in thousands of events. 5 MB at most."""

_SETTINGS, _SHORT_SETTING = 1024, 3_000
"""So many settings of up to so many characters are remembered likewise: each job repeats those of
its application, the long options of a JVM among them. 6 MB at most."""

_SENSITIVE = f"(?:{_data()['names']})"
"""What the name of a secret holds."""

_OPTION = _SENSITIVE.replace(r"[._\- ]?", r"[_\-]?")
"""Such a word in an option of a command."""

_NAMED = rf"(?i:{_SENSITIVE})[{WORD}.\-]*[\"'`]?"
"""A name that holds such a word, up to its end."""

_QUOTED = (
    r"\"(?:[^\"\\]|\\(?s:.))*(?:\"|\\?\z)"
    r"|'(?:[^'\\]|\\(?s:.)|'')*(?:'|\\?\z)"
)
"""Quoted text; its end may have been cut off."""

_NO_LETTER = "(?:^|[^A-Za-z0-9])"
_BARE = rf"\*\(redacted\)|[^{BLANK},;&)\]}}\"']+"
_ARGUMENT = rf"{_QUOTED}|[^{BLANK}|;]+"
_SCHEMES = r"(?i:bearer|basic|negotiate|apikey|authorization[\"']?[ \t]?[:=][ \t]?[\"']?token)"

_BEFORE = (START, "(?i)" + START, _NO_LETTER, rf"(?:^|[^{WORD}+/])")
"""How patterns begin that look at one character before, which may end what was just replaced."""

_PROSE = frozenset(word.encode() for word in _data()["harmless"])
"""What follows `is` where it is no secret."""


def _sign(pattern: str) -> Replacement:
    return replacement("", pattern, REDACTED, back=pattern.startswith(_BEFORE))


def _unless(pattern: str, harmless: frozenset[bytes] | None) -> Replacement:
    """Replace what a pattern finds but some words; where none are given, but any plain word."""
    mark = REDACTED.encode()

    def instead(match: Any) -> bytes:
        found: bytes = match[1]
        word = found.rstrip(b".!?").lower()
        plain = word in harmless if harmless else found.isalpha() and found[1:].islower()
        return found if plain else mark

    return Replacement(b"", compiled(pattern), instead, back=pattern.startswith(_BEFORE))


def _listed(match: Any) -> bytes:
    """Leave the word `value` that stands behind the name of a secret: what follows it is one."""
    found: bytes = match[1]
    return found if found.strip(b"\"'").lower() == b"value" else REDACTED.encode()


_RULES = (
    *(_sign(place) for place in secret_places()),
    # A PEM block; its end may have been cut off.
    _sign(
        r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY"
        r"(?s:.*?)(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----|\z))"
    ),
    # scheme://user:password@host; a password may hold @
    _sign(rf"://([^{BLANK}/@:'\"]*:[^{BLANK}@'\"]*(?:@[^{BLANK}'\"/?#,;@]*)*)@"),
    # Authorization: Bearer x, Basic x
    _unless(rf"{START}{_SCHEMES}[{BLANK}]+([{WORD}\-.~+/]{{8,}}=*)", None),
    # Cookie: name=value; name=value
    _sign(rf"(?i){START}cookie:[{BLANK}]*([{WORD}.\-]+=[^\n'\"]+)"),
    # "some.password": "value", password = 'value', secret -> value
    _sign(rf"{_NAMED}[{BLANK}]*(?:=>|->|===|==|=|:=|::|:)[{BLANK}]*({_QUOTED}|{_BARE})"),
    # PASSWORD 'x', option("password", "x")
    Replacement(
        b"", compiled(rf"{_NAMED}(?:[{BLANK}]*,[{BLANK}]*|[{BLANK}]+)({_QUOTED})"), _listed
    ),
    # the password is x
    _unless(rf"{_NAMED}[{BLANK}]+(?i:is|was)[{BLANK}]*:?[{BLANK}]+({_QUOTED}|{_BARE})", _PROSE),
    # IDENTIFIED BY x
    _sign(rf"(?i:identified[{BLANK}]+by)[{BLANK}]+({_QUOTED}|{_BARE})"),
    # --password x
    _sign(
        rf"(?:^|[^{WORD}\-])-[{WORD}\-]*(?i:{_OPTION})[{WORD}\-]*[{BLANK}]+"
        rf"([^{BLANK}\-=][^{BLANK}]*)"
    ),
    # mysql -px, sshpass -p x, curl -u user:x
    _sign(rf"{START}(?:mysql|mariadb)[a-z_\-]{{0,20}}[ \t](?:[^\n|;]*?[ \t])?-p({_ARGUMENT})"),
    _sign(rf"{START}sshpass[{BLANK}]+-p[{BLANK}]*({_ARGUMENT})"),
    _sign(
        rf"{START}(?:curl|wget)[ \t](?:[^\n|;]*?[ \t])?(?:-u|--user)[{BLANK}=]?[\"']?"
        rf"[^{BLANK}:'\"|;]*:([^{BLANK}'\"|;]+)"
    ),
    # Oracle: jdbc:oracle:thin:user/password@host, user/password@host:1521/name, sqlplus u/p@name
    _sign(rf"(?i:jdbc:oracle:[a-z0-9]{{1,10}}:)[A-Za-z0-9_$#]{{0,64}}/([^{BLANK}@'\"]{{1,128}})@"),
    _sign(
        rf"(?:^|[{BLANK}'\"=(,])[A-Za-z0-9_$#]{{1,30}}/([^{BLANK}@/'\"]{{1,64}})@"
        r"(?://|[A-Za-z0-9.\-]{1,100}:[0-9]{2,5}[/:])"
    ),
    _sign(
        rf"{START}(?i:sqlplus|sqlldr|expdp|impdp|rman|connect|conn)(?:[{BLANK}][^{BLANK}]{{1,30}})"
        rf"{{0,3}}?[{BLANK}][A-Za-z0-9_$#]{{1,30}}/([^{BLANK}@/'\"]{{1,64}})@"
    ),
    # user:pa@ss@host without a scheme
    _sign(
        rf"(?:^|[{BLANK}'\"=(,])[A-Za-z0-9_.\-]{{1,64}}:"
        rf"([^{BLANK}@/'\",;:]{{1,64}}@[^{BLANK}@/'\",;:]{{1,64}})@[A-Za-z0-9]"
    ),
    # Signed URLs: sig=, X-Amz-Signature=
    _sign(
        r"(?i:[?&](?:sig|signature|x-(?:amz|goog)-[A-Za-z0-9\-]{1,40}|se|sp)=)"
        rf"([^&{BLANK}'\"]+)"
    ),
    # Tokens known by their shape
    _sign(rf"{_NO_LETTER}({token_shapes()})"),
    # 88 characters of base64 that end in ==: an Azure storage key; 40: an AWS secret key.
    _sign(rf"(?:^|[^{WORD}+/])([A-Za-z0-9+/]{{86}}==)"),
    Replacement(
        b"",
        compiled(rf"(?:^|[^{WORD}+/=.\-])([A-Za-z0-9+/]{{40}})(?:\z|[^{WORD}+/=.\-])"),
        lambda match: REDACTED.encode() if _is_mixed(match[1]) else match[1],
    ),
)

_SECRET_SETTING = compiled(
    rf"(?i:{_SENSITIVE}|{_data()['wide_names']}|passwd|\bsas\b|connection.?string)"
)
"""Names of settings whose values are kept from tables whatever they are."""

_HINT = compiled(
    rf"(?i:{_SENSITIVE}|bearer|basic|negotiate|apikey|cookie:|identified|[?&;][a-z_\-]{{2,20}}="
    r"|passw?d?[\"']?[=:]|-[a-z\-]{0,40}pass|value\\{0,8}[\"']?[ \t]*[:=>]"
    r"|auth(?:orization)?\\{0,8}[\"']?[ \t]*[:=]|x-auth|bind(?:pw|cred)"
    r"|pw[\"']?[:=]|(?:root|user)pw|ls0tls1c|:[0-9*]{1,5}:"
    r"|(?:beeline|mongo[a-z]*|impala-shell|presto|trino|vertica|redis-cli|sqlcmd|bcp|isql|osql|tsql"
    r"|smbclient|ldap[a-z]+|vsql)[ \t]|(?:https?|git|ssh)://[^/ ]{1,200}@"
    r"|pin|hmac|senha|mdp|community|private-|ppk|log[ -]?[io]n|sign[ -]?in|0x[0-9A-Z]{8}"
    rf"|{_data()['wide_names']}"
    r"|crypt|sshpass|mysql|mariadb|curl|wget)|-----BEGIN|:[^/@]{0,64}@|/[^@/]{0,200}@|://[^/@:]*:"
    rf"|[A-Za-z0-9+/]{{40}}|{_NO_LETTER}(?:{token_shapes()})"
)
"""Text without any of this holds no secret that the rules know; most text is done here."""


def redact_text(text: str | None, limit: int = MAX_TEXT) -> str:
    """Return a text without its secrets, cut to a length.

    text: a description, SQL statement or message from the log.
    limit: characters to keep at most; the rest is dropped before the search, never after it.

    >>> redact_text("CREATE TABLE t OPTIONS (url 'jdbc:x://h/db', password 'hunter2')")
    "CREATE TABLE t OPTIONS (url 'jdbc:x://h/db', password *(redacted))"
    """
    if not text:
        return ""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return _remembered(text) if len(text) <= _SHORT else _redacted(text)


def redact_setting(key: str, value: str, limit: int) -> tuple[str, str]:
    """Return name and value of a setting without secrets, both cut to a length.

    >>> redact_setting("spark.ssl.keyPassword", "two words", 99)
    ('spark.ssl.keyPassword', '*(redacted)')
    """
    is_short = len(key) + len(value) <= _SHORT_SETTING
    return (_remembered_setting if is_short else _redacted_setting)(key, value, limit)


def _redacted_setting(key: str, value: str, limit: int) -> tuple[str, str]:
    if value and _SECRET_SETTING.search(encoded(key)) is not None:
        return redact_text(key, limit), REDACTED
    if len(key) + len(value) <= limit and _HINT.search(encoded(f"{key}\n{value}")) is None:
        return key, value
    return redact_text(key, limit), redact_text(value, limit)


@lru_cache(1)
def _look_alike() -> Replacement:
    """Return the rule for names of secrets with letters that look like those of ASCII."""
    return _sign(
        rf"(?i:{look_alike(_data()['lookalike_names'])})[{WORD}.\-{_data()['invisible']}]*[\"'`]?"
        rf"[{BLANK}]*(?:=>|->|===|==|=|:=|::|:|＝|：)[{BLANK}]*({_QUOTED}|{_BARE})"
    )


def _redacted(text: str) -> str:
    stored = encoded(text)
    if not text.isascii():
        stored = _look_alike().apply(stored)
    if _HINT.search(stored) is None:
        return text if text.isascii() else stored.decode("utf-8", "replace")
    for rule in _RULES:
        stored = rule.apply(stored)
    return without_keys(stored, REDACTED.encode()).decode("utf-8", "replace")


_remembered = lru_cache(_REMEMBERED)(_redacted)
_remembered_setting = lru_cache(_SETTINGS)(_redacted_setting)


def _is_mixed(key: bytes) -> bool:
    """Tell whether base64 has small and capital letters and digits: no path and no word has."""
    return key.lower() != key != key.upper() and any(48 <= each <= 57 for each in key)


_MARK = b"*"
_LEFT = compiled(r"[\p{L}\p{N}]")


def family(name: str) -> str:
    """Return a name as it is in every run of its query; blanks become single.

    >>> family("daily_sales 20261001"), family("tpcds_q39b  v2"), family("load 12:30, run 7")
    ('daily_sales *', 'tpcds_q39b v2', 'load *, run *')
    """
    return _remembered_family(name) if len(name) <= _SHORT else _family(name)


def tells_apart(name: str) -> bool:
    """Tell whether letters or numbers are left of a name: if not, it names every query alike.

    >>> tells_apart("q1"), tells_apart("2026-10-01 12:30")
    (True, False)
    """
    return _LEFT.search(encoded(family(name))) is not None


def _family(name: str) -> str:
    text = encoded(" ".join(name.split()))
    for step in _steps():
        text = step.apply(text)
    return text.decode("utf-8")


_remembered_family = lru_cache(_REMEMBERED)(_family)


@lru_cache(1)
def _steps() -> tuple[Replacement, ...]:
    data = json.loads(shared_file(NAMES).read_text(encoding="utf-8"))
    parts = list(data["parts"].items())
    return tuple(_step(step, parts) for step in data["steps"])


def _step(step: dict[str, Any], parts: list[tuple[str, str]]) -> Replacement:
    shape, least = step["shape"], step.get("changes", 0)
    for name, part in reversed(parts):  # a part may hold parts above it
        shape = shape.replace(f"<{name}>", part)

    def instead(match: Any) -> bytes:
        found: bytes = match[1]
        return _MARK if not least or _changes(found) >= least else found

    return Replacement(b"", compiled(shape), instead)


def _changes(found: bytes) -> int:
    """Count how often letters follow numbers or numbers letters."""
    return sum(a.isdigit() != b.isdigit() for a, b in pairwise(found.decode("ascii")))
