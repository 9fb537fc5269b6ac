"""Keeping secrets out of tables: what users write into descriptions, SQL and error messages.

Of Spark's properties only a handful is ever decoded, so no other one can leak. Free text is
another matter: it is searched for what looks like a secret, and cut to a bounded length.
"""

from __future__ import annotations

import re

REDACTED = "*(redacted)"
"""What stands in a secret's place; Spark writes `*********(redacted)`."""

MAX_TEXT = 10_000
"""Characters kept of one text: a generated SQL statement can have millions."""

_SENSITIVE = (
    r"(?:secret|pass(?:word|wd|phrase)|pwd|token|access[._\- ]?key|account[._\- ]?key"
    r"|api[._\- ]?key|private[._\- ]?key|credential|client[._\- ]?key|auth[._\- ]?key"
    r"|sas[._\- ]?key"
    r"|fs\.azure\.account\.key|shared[._\- ]?access[._\- ]?signature)"
)
"""Spark's own default (spark.redaction.regex: secret, password, token, access key) and more."""

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # A PEM block; its end may have been cut off.
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
        ),
        REDACTED,
    ),
    # scheme://user:password@host
    (re.compile(r"(?<=://)[^\s/@:'\"]*:[^\s@'\"]*(?=@)"), REDACTED),
    # Authorization: Bearer x, Basic x
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w\-.~+/]{8,}=*"), rf"\1 {REDACTED}"),
    # "some.password": "value", password = 'value', secret -> value
    (
        re.compile(
            rf"(?i)([\w.\-]*{_SENSITIVE}[\w.\-]*[\"'`]?\s*(?:=>|->|=|:|,(?=\s*[\"']))\s*)"
            r"(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.|'')*'|[^\s,;&)\]}\"']+)"
        ),
        rf"\1{REDACTED}",
    ),
    # IDENTIFIED BY 'x', PASSWORD 'x'
    (
        re.compile(rf"(?i)(\b(?:identified\s+by|{_SENSITIVE})\s+)(?:'[^']*'|\"[^\"]*\")"),
        rf"\1{REDACTED}",
    ),
    # --password x
    (re.compile(rf"(?i)(--?[\w\-]*{_SENSITIVE}[\w\-]*\s+)(?![-=])\S+"), rf"\1{REDACTED}"),
    # Signed URLs: sig=, X-Amz-Signature=
    (re.compile(r"(?i)([?&](?:sig|signature|x-amz-[\w\-]+|se|sp)=)[^&\s'\"]+"), rf"\1{REDACTED}"),
    # Keys known by their shape: AWS, GitHub, Databricks, Google, Slack, JSON web tokens
    (
        re.compile(
            r"\b(?:(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}|gh[pousr]_\w{30,}|dapi[0-9a-f]{32}"
            r"|AIza[\w\-]{35}|xox[abprs]-[\w\-]{10,}|eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*)"
        ),
        REDACTED,
    ),
    # 88 characters of base64 that end in ==: an Azure storage key; 40: an AWS secret key.
    (re.compile(r"(?<![\w+/])[A-Za-z0-9+/]{86}=="), REDACTED),
    (
        re.compile(
            r"(?<![\w+/=.\-])(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])(?=[A-Za-z0-9+/]*\d)"
            r"[A-Za-z0-9+/]{40}(?![\w+/=.\-])"
        ),
        REDACTED,
    ),
)

_HINT = re.compile(
    rf"(?i){_SENSITIVE}|://[^\s/]*@|bearer|basic|identified|sig|x-amz|BEGIN"
    r"|[A-Za-z0-9+/_\-]{20}"
)
"""Text without any of this holds no secret that the rules know; most text is done here."""


def redact_text(text: str | None, limit: int = MAX_TEXT) -> str:
    """Return a text without its secrets, cut to a length.

    Parameters
    ----------
    text : str or None
        A description, SQL statement or message from the log.
    limit : int
        Characters to keep at most; the rest is dropped before the search, never after it.

    >>> redact_text("CREATE TABLE t OPTIONS (url 'jdbc:x://h/db', password 'hunter2')")
    "CREATE TABLE t OPTIONS (url 'jdbc:x://h/db', password *(redacted))"
    """
    if not text:
        return ""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if _HINT.search(text) is None:
        return text
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text
