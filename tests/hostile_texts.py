"""Texts made to cost a matcher more than their length: pieces of what is matched, repeated."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import process_time

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


def pairs(count: int) -> list[str]:
    """Every piece, and two of them side by side, as drawn by a fixed seed."""
    draw = random.Random(5)
    return [*PIECES, *("".join(draw.sample(PIECES, 2)) for _ in range(count))]


def repeated(piece: str, length: int) -> str:
    """A text of at least so many characters, with a start that most matchers look for."""
    return f"= {piece * (length // len(piece) + 1)}"


def least_cost(work: Callable[[str], object], text: str, tries: int = 3) -> float:
    """Processor time in seconds, the least of some tries."""
    costs = []
    for _ in range(tries):
        start = process_time()
        work(text)
        costs.append(process_time() - start)
    return min(costs)
