"""The plugin makes the same names and fingerprints as the analyzer, of any text."""

from __future__ import annotations

import base64
import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.logs.events.operators import hash_plan_text, normalise
from iqcar.logs.events.settings import (
    clean_description,
    connect_operation,
    connect_tags,
    is_user_named,
)
from iqcar.logs.text import compiled, encoded, family, shared_file, tells_apart
from iqcar.model.queries.identify import _fingerprint_of
from tests.logs.test_fingerprint import DIFFERENT, ID, SAME
from tests.logs.test_redact import KEPT
from tests.logs.test_redact import SAME as SAME_RUNS
from tests.support import quick_spark
from tests.support.examples import examples
from tests.support.hostile_texts import Hostile, hostile
from tests.support.listener_spark import JAR, TEST_JAR, build_jar, spark_homes

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not (shutil.which("java") and spark_homes()), reason="needs a JDK and pyspark"
    ),
]

ANALYZER = {
    "normalise": normalise,
    "plan-text": hash_plan_text,
    "clean": clean_description,
    "user-named": lambda text: str(is_user_named(text)).lower(),
    "family": family,
    "tells-apart": lambda text: str(tells_apart(text)).lower(),
    "fingerprint": lambda text: _fingerprint_of("name", text),
    "connect": lambda text: connect_operation(text, None),
    "connect-tags": connect_tags,
}

LINES = [line for pair in SAME + DIFFERENT for line in pair]
MARKS = ["'", '"', "''", "\\", "(", ")", "[", "]", ", ", " ", "\n", "\u2028", "\x1c", "\xa0", "?"]
WORDS = [
    " = ",
    " <=> ",
    "THEN ",
    " AND ",
    " IN ",
    "INSET ",
    "-",
    "/",
    "=",
    ".",
    ":",
    "_",
    "$",
    "Kill ",
    "PushedFilters: [",
    ", A: ",
    "Location: a ",
    "In(",
    "EqualTo(",
    "a#1",
    "( ",
    " END",
    "like(",
    " [id=",
    "plan_id=",
    "\\'",
]
NUMBERS = [
    "12",
    "1e-5",
    "3.14D",
    "2024-01-02T03:04:05.6Z",
    "٣",
    "½",
    "#12L",
    "a#1",
    "@1f2e",
    "cafe1234",
]
LETTERS = ["é", "ſ", "𝒳", "\u0301", "part-00012", "year=2024/", "$$Lambda$7/0x00@1f", "[plan_id=4]"]
SECRETS = [
    *("password = ", "token: 'x''y", '"se\\"cret" -> ', "Bearer ", "abcdefgh12345678"),
    *("s3://u:p@h", "?sig=", "--api-key v ", "AKIAABCDEFGHIJKLMNOP", "IDENTIFIED BY 'x'"),
    *("A" * 86 + "==", "aB3" * 13 + "x", "-----BEGIN RSA PRIVATE KEY-----"),
]
SECRETS += [
    *("password is x", "token IS NOT ", "sfPassword '", "'password' ", "passcode=1 ", "token->"),
    *("secret == ", "pwd := ", "api_key ::", "encryption_key", "=>,", "-access_key v", "--pwd ="),
    *("Cookie: a=b;c=d", "Set-Cookie:", "basic ", "negotiate", "authorization: token ", "x=="),
    *("mysql -u r -pPW ", "mysqldump\n", " -p", "-p'a b", "sshpass -p x ", "curl ", " -u a:b "),
    *(
        "--user=ann:x",
        "jdbc:oracle:thin:",
        "scott/tiger@",
        "db:1521/x",
        "//h",
        "sqlplus -s ",
        "conn ",
    ),
    *(
        "user:pa@ss@host",
        "@",
        "s3://a:b@c@d",
        "?x-goog-a=",
        "&se=1",
        "aes_encrypt(",
        "aes_decrypt (",
        "),",
    ),
    *(
        "glpat-" + "a" * 20,
        "eyJ" + "a" * 20,
        "sk_live_" + "b" * 12,
        "dapi" + "0" * 32 + "-",
        "ghp_",
    ),
    *(
        "hooks.slack.com/services/T0/B0/" + "x" * 20,
        "-----END PRIVATE KEY-----",
        "-----BEGIN A PRIVATE KEY",
    ),
]
SHARED = json.loads(shared_file("iqcar_secrets.json").read_text(encoding="utf-8"))
"""What both read: its words for secrets, and for none."""
SECRETS += [
    *(f"password is {word}. " for word in SHARED["harmless"]),
    *(
        "access.key=a ",
        "shared access-signature: b",
        "decryption_key c",
        "signing key ",
        "passphrase",
    ),
    *("\u0440assword = d", "s\u0435cret:", "\uff41pi key => e", "passphrase", "t\u043eken "),
]
NAMES = [
    *(ID, ID.upper(), f"id = {ID}", f"<br/>runId = {ID}", "<br/>batch = 3"),
    *(
        "count at App.scala:12",
        "SELECT 1 ",
        "/* x */ ",
        "-- x\n",
        "/*",
        "*/",
        "( ",
        "(",
        " at ",
        ":1",
    ),
    *("User_", "_Operation_", f"_Operation_{ID}", f"_Session_{ID}", f"_Request_{ID}", "runId = "),
    f"SparkConnect_OperationTag_User_a_Session_{ID}_Operation_{ID}",
    f"User_a_Session_{ID}_Request_{ID}",
    f"SparkConnect_SessionTag_User_a_Session_{ID}_Tag_nightly",
    *("SparkConnect_SessionTag_", f"_Session_{ID}_Tag_", "Spark Connect - session_id: "),
]
RUNS = [*(text for *texts, _ in SAME_RUNS for text in texts), *KEPT]
PIECES = [*LINES, *MARKS, *WORDS, *NUMBERS, *LETTERS, *SECRETS, *NAMES, *RUNS]


MAIN = "org.iqcar.spark.driver.queries.FingerprintMain"


def answers(questions: list[tuple[str, str]]) -> list[str]:
    """What the plugin's code, in a JVM of its own, makes of each text."""
    build_jar()
    path = f"{JAR}:{TEST_JAR}:{spark_homes()[0]}/jars/*"
    asked = "".join(f"{kind} {encode(text)}\n" for kind, text in questions)
    words = ["java", *quick_spark.PLAIN.split(), "-cp", path, MAIN]
    done = subprocess.run(words, input=asked, capture_output=True, text=True, check=True)
    return [base64.b64decode(line).decode("utf-8") for line in done.stdout.splitlines()]


def encode(text: str) -> str:
    return base64.b64encode(text.encode("utf-8")).decode("ascii")


def check(texts: list[str]) -> None:
    """Compare everything the plugin and the analyzer make of some texts."""
    questions = [(kind, text) for text in texts for kind in ANALYZER]
    found = answers(questions)
    expected = [ANALYZER[kind](text) for kind, text in questions]
    different = [
        (*question, theirs, ours)
        for question, theirs, ours in zip(questions, found, expected, strict=True)
        if theirs != ours
    ]
    assert different == []


def test_the_plans_and_names_of_the_analyzers_tests_come_out_the_same() -> None:
    check(PIECES)


@pytest.mark.long
def test_texts_put_together_from_what_matters_come_out_the_same() -> None:
    choose = random.Random(11)
    check(["".join(choose.choices(PIECES, k=choose.randint(2, 12))) for _ in range(4000)])


NEW = compiled(r"[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}]")
"""What RE2's Unicode knows; of characters that Java's does not know the two differ."""


@examples(3)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=80), min_size=200, max_size=300))
def test_any_text_comes_out_the_same(texts: list[str]) -> None:
    unknown = answers([("undefined", text) for text in texts])
    pairs = zip(texts, unknown, strict=True)
    check([text for text, characters in pairs if not NEW.search(encoded(characters))])


def test_a_text_is_left_out_only_for_characters_that_are_newer_than_java() -> None:
    texts = ["any text", "\U000319b6", "a\ue000\U000e5000", "🚀"]
    unknown = answers([("undefined", text) for text in texts])
    left_out = [bool(NEW.search(encoded(characters))) for characters in unknown]
    assert [left_out[0], *left_out[2:]] == [False, False, False]


@pytest.mark.long
def test_long_texts_come_out_the_same() -> None:
    names = ", ".join(str(n) for n in range(20_000))
    quoted = "'" + "it''s \\' " * 3_000 + "'"
    check([f"Filter a#1 IN ({names})", f"[{names}]", quoted, quoted[:-1], "x'" + "y" * 20_000])


SHORT, LONG = 1_000, 4_000
HOSTILE = hostile(60)


Case = tuple[str, Hostile]
TRIES = 3
FLOOR_NS = 1e6
"""Compiling and collecting garbage come in between."""


def costs_of(cases: list[Case], tries_of_long: int) -> dict[Case, tuple[float, float]]:
    """Processor time in ns that the plugin needs for each text, short and long."""
    lengths = ((SHORT, TRIES), (LONG, tries_of_long))
    asked = [
        (f"cost-{tries}-of-{kind}", one.text(n)) for kind, one in cases for n, tries in lengths
    ]
    cost = [float(answer) for answer in answers(asked)]
    return dict(zip(cases, zip(cost[::2], cost[1::2], strict=True), strict=True))


def slow_ones(costs: dict[Case, tuple[float, float]]) -> list[Case]:
    return [case for case, (few, many) in costs.items() if many > 10 * few + FLOOR_NS]


@pytest.fixture(scope="module")
def costs() -> dict[Case, tuple[float, float]]:
    """The costs of every function; a long text that seems slow is tried as often as a short one."""
    found = costs_of([(kind, one) for kind in ANALYZER for one in HOSTILE], 1)
    again = slow_ones(found)
    return {**found, **costs_of(again, TRIES)} if again else found


@pytest.mark.long
@pytest.mark.parametrize("kind", ANALYZER)
def test_the_plugin_needs_four_times_as_long_for_four_times_the_text(
    costs: dict[Case, tuple[float, float]], kind: str
) -> None:
    assert [case for case in slow_ones(costs) if case[0] == kind] == []


def nodes(plan: dict[str, object]) -> Iterator[dict[str, object]]:
    stack = [plan]
    while stack:
        one = stack.pop()
        yield one
        stack.extend(one.get("children") or [])  # type: ignore[arg-type]


def test_the_plans_of_real_logs_come_out_the_same(shared_logs: Path) -> None:
    texts: set[str] = set()
    for path in sorted(shared_logs.rglob("*")):
        if not path.is_file():
            continue
        for line in path.read_bytes().splitlines():
            if b'SQLExecutionStart"' in line[:200]:
                event = json.loads(line)
                texts.add(event["description"])
                for node in nodes(event.get("sparkPlanInfo") or {}):
                    texts |= {str(node.get("nodeName", "")), str(node.get("simpleString", ""))}
    assert len(texts) > 20
    check(sorted(texts))
