"""Texts made to cost a matcher more than their length: pieces of what is matched, repeated."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import process_time
from typing import NamedTuple

PIECES = (
    *("a", "1", " ", "= ", "( = ", "a = b#1 ", "' ", "'\\'", "''", '"', '\\"', "'a''b", "\\", "\n"),
    *("Location: ", "Location: a ", "Location: a (1 paths) ", "IN ", "IN (", "INSET a,", "THEN "),
    *("DataFilters: [a", "PushedFilters: [a\n", ", A: ", ", Aa", "In(a, [", "In(a,", "EqualTo(a,"),
    *(
        "like(a#1, ",
        "[id=",
        ", [plan_id=",
        "#1,",
        "#x",
        "$Lambda",
        "@aaaa",
        "abcdef12 ",
        "1-",
        "1/",
    ),
    *("?, ", "? ", "2024-01-", "0a1b2c3d-0000-", "password", "password=", "token ", "secret'"),
    *(
        "'password' ",
        "password is ",
        "identified by ",
        "-a-",
        "--pwd ",
        "://a:",
        "://a:b@",
        "a:b@c@",
    ),
    *(
        "bearer ",
        "cookie:",
        "cookie:a=",
        "mysql ",
        "mysql -p",
        "curl -u ",
        "sshpass -p",
        "scott/x@",
    ),
    *(
        "jdbc:oracle:thin:",
        "sqlplus ",
        "aes_encrypt(",
        "aes_encrypt(a,'",
        "?sig=",
        "&x-amz-",
        "eyJ",
    ),
    *(
        "glpat-",
        "-eyJ",
        "A3-",
        "aB3",
        "aB3-",
        "-----BEGIN PRIVATE KEY",
        "-----BEGIN ",
        "/* a */ ",
        "/*",
    ),
    *(
        "*/",
        "-- x\n",
        "SparkConnect_OperationTag_",
        "_Operation_",
        "User_",
        "_Session_",
        " at ",
        ":1",
    ),
    *(
        "<br/>id = ",
        "runId = ",
        "(min, med, max",
        " (ms)",
        "scan time ",
        "a.",
        "aError: ",
        '"Event"',
    ),
)


class Hostile(NamedTuple):
    """A text that begins and ends with one piece each, and repeats one in between."""

    first: str
    piece: str
    last: str

    def text(self, length: int) -> str:
        """Make it of at least so many characters."""
        return self.first + self.piece * (length // len(self.piece) + 1) + self.last


KNOWN = (
    Hostile("Location: a", " ", "x"),
    Hostile("", "= ", "#"),
    Hostile("", "IN ", "#"),
    Hostile("a", "1", "x"),
    Hostile("DataFilters: [", "a", "\n"),
    Hostile("", "DataFilters: [a ", "\nx"),
    Hostile("", "/* a */ ", "CALL p()"),
    Hostile("password", " ", "x"),
)
"""Texts that once cost the square of their length, or more."""


def hostile(count: int) -> list[Hostile]:
    """Every piece by itself, and so many texts as a fixed seed draws them."""
    draw = random.Random(5)
    drawn = []
    for _ in range(count):
        piece = "".join(draw.sample(PIECES, draw.choice((1, 1, 2))))
        drawn.append(Hostile(draw.choice(PIECES), piece, draw.choice(("", "#", *PIECES))))
    return [*(Hostile("", piece, "") for piece in PIECES), *KNOWN, *drawn]


def least_cost(work: Callable[[str], object], text: str, tries: int = 3) -> float:
    """Processor time in seconds, the least of some tries."""
    costs = []
    for _ in range(tries):
        start = process_time()
        work(text)
        costs.append(process_time() - start)
    return min(costs)
