"""No secret that a user wrote into a description, statement or message reaches a table."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from iqcar.logs import read_logs
from iqcar.logs.text import MAX_TEXT, family, redact_text, tells_apart
from iqcar.model.queries.identify import identify
from iqcar.tables import texts
from iqcar_lab.clusters.event_log import SyntheticLog, node, stage_info
from tests.conftest import REPO
from tests.support.examples import examples

HIDDEN = "hunter2Hunter2"
AWS_KEY = "AKIA" + "ABCDEFGH12345678"
AWS_HIDDEN = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEYab"
AZURE_KEY = "Ab1+" * 21 + "Ab=="
WEB_KEY = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"

LEAKS = [
    (f"OPTIONS (url 'jdbc:postgresql://db/x', password '{HIDDEN}')", HIDDEN),
    (f"jdbc:mysql://host:3306/db?user=ann&password={HIDDEN}&ssl=true", HIDDEN),
    (f"jdbc:sqlserver://host;user=ann;PWD={HIDDEN};encrypt=true", HIDDEN),
    (f"reading https://ann:{HIDDEN}@example.org/data", HIDDEN),
    (f"SET spark.my.secret={HIDDEN}", HIDDEN),
    (f"SET fs.s3a.access.key = '{HIDDEN}'", HIDDEN),
    (f'{{"client_secret": "{HIDDEN}"}}', HIDDEN),
    (f"option(\"dbtable\", \"t\").option(\"password\", \"{HIDDEN}\")", HIDDEN),
    (f"Map(dbPassword -> {HIDDEN}, user -> ann)", HIDDEN),
    (f"fs.azure.account.key.acme.dfs.core.windows.net={HIDDEN}", HIDDEN),
    (f"credential={HIDDEN}", HIDDEN),
    (f"passphrase: {HIDDEN}", HIDDEN),
    (f"api_key='{HIDDEN}'", HIDDEN),
    (f"private.key={HIDDEN}", HIDDEN),
    (f"CREATE USER ann IDENTIFIED BY '{HIDDEN}'", HIDDEN),
    (f"--password {HIDDEN} --verbose", HIDDEN),
    (f"Authorization: Bearer {HIDDEN}", HIDDEN),
    (f"https://acme.blob.core.windows.net/c?sv=2020&sig={HIDDEN}&x=1", HIDDEN),
    (f"https://b.s3.amazonaws.com/k?X-Amz-Signature={HIDDEN}", HIDDEN),
    (f"COPY INTO t CREDENTIALS {AWS_KEY} {AWS_HIDDEN}", AWS_KEY),
    (f"COPY INTO t {AWS_KEY} {AWS_HIDDEN}", AWS_HIDDEN),
    (f"wasbs key {AZURE_KEY} end", AZURE_KEY),
    (f"got {WEB_KEY} back", WEB_KEY),
    ("dapi" + "0123456789abcdef" * 2 + " rejected", "0123456789abcdef"),
    (f"-----BEGIN RSA PRIVATE KEY-----\n{HIDDEN}\n-----END RSA PRIVATE KEY-----", HIDDEN),
    (f"-----BEGIN PRIVATE KEY-----\n{HIDDEN}", HIDDEN),
    (f"-----BEGIN EC PRIVATE KEY-----\n{HIDDEN}\n-----END EC PRIVATE KEY----- x", HIDDEN),
    (f"jdbc:oracle:thin:scott/{HIDDEN}@//db:1521/orcl", HIDDEN),
    (f"reads scott/{HIDDEN}@db.example.org:1521/orcl", HIDDEN),
    (f"sqlplus -s scott/{HIDDEN}@orcl @run.sql", HIDDEN),
    (f"postgresql://ann:pa@{HIDDEN}@db:5432/x", HIDDEN),
    (f"from ann:pa@{HIDDEN}@db", HIDDEN),
    (f"passcode={HIDDEN}", HIDDEN),
    (f"encryption_key={HIDDEN}", HIDDEN),
    (f"signing-key: {HIDDEN}", HIDDEN),
    (f"OPTIONS (sfUser 'ann', sfPassword '{HIDDEN}')", HIDDEN),
    (f"OPTIONS ('password' '{HIDDEN}')", HIDDEN),
    (f"password = '{HIDDEN} that was cut off", HIDDEN),
    (f"Project aes_encrypt(name, '{HIDDEN}', 'GCM')", HIDDEN),
    (f"Project aes_decrypt(concat(a, ','), unhex('{HIDDEN}'))", HIDDEN),
    (f"Project try_aes_decrypt(aes_encrypt(a, 'x'), \"{HIDDEN}\")", HIDDEN),
    (f"Cookie: theme=dark; session={HIDDEN}", HIDDEN),
    (f"set-cookie: sid={HIDDEN}", HIDDEN),
    (f"mysql -u root -p{HIDDEN} shop", HIDDEN),
    (f"mysqldump --host=db -p'{HIDDEN} x' shop", HIDDEN),
    (f"sshpass -p {HIDDEN} ssh host", HIDDEN),
    (f"curl -s -u ann:{HIDDEN} https://x", HIDDEN),
    (f"the password is {HIDDEN}.", HIDDEN),
    (f"Password was: {HIDDEN}", HIDDEN),
    (f"password == '{HIDDEN}'", HIDDEN),
    (f"Authorization: token {HIDDEN}", HIDDEN),
    (f"CREATE USER ann IDENTIFIED BY {HIDDEN}", HIDDEN),
    (f"https://b.storage.googleapis.com/k?X-Goog-Signature={HIDDEN}", HIDDEN),
]  # fmt: skip

SECRETS = REPO / "listener/src/main/resources/iqcar_secrets.json"
SHAPES: dict[str, str] = json.loads(SECRETS.read_text(encoding="utf-8"))["shapes"]

LIVE = ("glpat-", "github_pat_", "ghp_", "sk_live_", "sk-proj-", "sk-ant-", "xoxb-", "npm_", "hf_")
"""How tokens begin that people paste most."""


@pytest.mark.parametrize("start", LIVE)
def test_a_token_is_replaced_wherever_it_stands(start: str) -> None:
    token = start + "a1B2" * 22
    for text in (token, f"run with {token}", f"'{token}'", f"x={token},y", f"https://h/{token}?q"):
        assert token[:20] not in redact_text(text)
        assert "(redacted)" in redact_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
@examples(5, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_shape_of_a_token_is_replaced(name: str, data: st.DataObject) -> None:
    token = data.draw(st.from_regex(rf"\A{SHAPES[name]}\Z").filter(lambda text: "\n" not in text))
    shown = redact_text(f"load with {token} now")
    assert token not in shown
    assert shown.startswith("load with ") and "*(redacted)" in shown and shown.endswith(" now")


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_holds_nothing_that_an_engine_could_try_twice(name: str) -> None:
    """Literals, classes, groups of alternatives, counts; one without upper bound at the end."""
    plain = re.sub(r"\[[A-Za-z0-9_~.+/=@-]+\]", "c", SHAPES[name])
    plain = re.sub(r"\{\d+,\}$", "", plain)
    plain = re.sub(r"(?<!\))\{\d+(,\d+)?\}", "", plain)
    assert re.fullmatch(r"(?:[A-Za-z0-9_~/=:|@-]|\(\?:|\)\??)+", plain), plain


def test_at_least_forty_shapes_are_known_and_their_source_is_named() -> None:
    file = SECRETS
    data = json.loads(file.read_text())
    assert len(data["shapes"]) >= 40
    assert "gitleaks" in data["source"] and "MIT License" in data["license"][0]


LISTED = json.loads(
    (REPO / "listener/src/test/resources/secret_shapes.json").read_text(encoding="utf-8")
)
MAY_PASS = 1
"""Shapes of the list that may pass: a name and a value with but a blank between them are prose."""


def test_secrets_of_all_known_shapes_are_replaced() -> None:
    """The plugin's own tests read the same list."""
    shapes = LISTED["shapes"]
    assert len(shapes) > 121
    secret = f"k{secrets.token_hex(7)}Z9x"
    passed = [one for one in shapes if secret in redact_text(one.replace("{X}", secret))]
    assert len(passed) <= MAY_PASS, passed
    for one in shapes:  # nor does it where a secret was found before it
        twice = redact_text(f"password={secret} {one.replace('{X}', secret)}")
        assert twice.startswith("password=*(redacted)")


@pytest.mark.parametrize("text", LISTED["harmless"])
def test_no_word_of_a_text_without_secrets_is_lost(text: str) -> None:
    assert redact_text(text) == text


def test_a_file_that_is_no_log_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text(f"my {HIDDEN}\nand more\n")
    (message,) = texts(read_logs([tmp_path / "notes"]).inputs, "message")
    assert "not a Spark event log" in message
    assert HIDDEN not in message and "my" not in message.split()


@pytest.mark.parametrize(("text", "secret"), LEAKS)
def test_a_secret_is_replaced(text: str, secret: str) -> None:
    found = redact_text(text)
    assert secret not in found
    assert "(redacted)" in found


@pytest.mark.parametrize(
    "text",
    [
        "count at App.scala:12",
        "SELECT author, tokens_used FROM books WHERE passport_no IS NOT NULL",
        "s3://bucket/year=2024/part-00001.parquet",
        "FileScan parquet default.store_sales[ss_item_sk#1L]",
        "http://host:8080/jobs",
        "application_1713000000000_0001",
        "SELECT * FROM users WHERE password IS NOT NULL AND token IS DISTINCT FROM t.x",
        "the password is wrong",
        "basic statistics of Bearer authentication",
        "hive/_HOST@EXAMPLE.COM",
        "image/name@sha256:0123456789abcdef",
        "actions/checkout@v4 and git@github.com:org/repo.git",
        "SELECT aes_encrypt(name, k, 'GCM') FROM t",
        "mailto:ann@example.org",
        "SELECT x FROM mysql WHERE a = b",
        "struct<cookie:string,n:int>",
        "count 0123456789012345678901234567890123456789",
        "s.customerAddressLineNumberTwo",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact_text(text) == text


def test_a_text_is_cut_to_its_limit() -> None:
    assert len(redact_text("x y " * MAX_TEXT)) <= MAX_TEXT
    assert redact_text("abcdef", 3) == "ab…"
    assert redact_text(None) == ""


@given(st.text(alphabet="ab'\"=:\\ ,;@/.-AZ09\npasword", max_size=300))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact_text(f"password={HIDDEN} {text}")
    assert HIDDEN not in once
    assert redact_text(once).count(HIDDEN) == 0


PLACES = (
    f"password={HIDDEN}",
    f"a scan time with glpat-{HIDDEN}{HIDDEN}",
    f"https://ann:pa@{HIDDEN}@example.org/data",
    f"the password is {HIDDEN}",
    f"aes_encrypt(name, '{HIDDEN}')",
)


@pytest.mark.parametrize("leak", PLACES)
def test_no_table_holds_a_secret_from_anywhere_in_the_log(tmp_path: Path, leak: str) -> None:
    log = (
        SyntheticLog(app_id=leak, version=leak)
        .app(name=f"etl {leak}", **{"User": leak, "App Attempt ID": leak})
        .environment(
            spark_task_cpus="2",
            spark_my_password=HIDDEN,
            spark_ssl_keyPassword=HIDDEN,
            spark_scheduler_mode=leak,
            spark_master=leak,
        )
    )
    properties = {
        "spark.job.description": leak,
        "spark.jobGroup.id": leak,
        "spark.job.tags": leak,
        "spark.scheduler.pool": leak,
        "spark.sql.execution.id": "0",
        "spark.other.secret": HIDDEN,
    }
    plan = node(leak, leak, metrics=[(7, f"scan time {leak}", "timing")])
    log.sql(0, plan, description=leak, physicalPlanDescription=leak, details=leak)
    info = stage_info(0, **{"Stage Name": leak, "Failure Reason": leak, "Details": leak})
    log.job(0, [info], properties=properties).stage(info, properties)
    reason = {"Reason": leak, "Description": leak, "Class Name": leak, "Kill Reason": leak}
    log.task(0, more={"Task End Reason": reason}, host=leak, executor=leak, Locality=leak)
    log.stage_end(info)
    log.executor(leak, leak).executor_removed(leak, 5, leak)
    log.sql_end(0, error=leak).end()
    path = log.write(tmp_path / "app-1")
    tables = identify(read_logs([path]))
    assert len(tables.sql_metrics) and len(tables.tasks)
    for name, frame in tables:
        assert HIDDEN.lower() not in frame.to_csv().lower(), name


def test_no_query_of_tpcds_loses_a_word() -> None:
    duckdb = pytest.importorskip("duckdb")
    extension = pytest.importorskip("duckdb_extension_tpcds")
    connection = duckdb.connect()
    folder = Path(extension.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    connection.execute(f"LOAD '{folder / 'tpcds.duckdb_extension'}'")
    queries = [row[0] for row in connection.execute("SELECT query FROM tpcds_queries()").fetchall()]
    assert len(queries) == 99
    for query in queries:
        assert redact_text(query, len(query)) == query


SAME = [
    ("daily_sales 20261001", "daily_sales 20261002", "daily_sales *"),
    ("daily_sales_2026-10-01", "daily_sales_2025-1-9", "daily_sales_*"),
    ("sales20261001", "sales19991231", "sales*"),
    ("2026/10/01 report", "01.10.2026 report", "* report"),
    ("report of Oct 1, 2026", "report of 31 December 2026", "report of *"),
    ("report 2026-10", "report 202609", "report *"),
    ("report 2026-W40", "report 2026W41-3", "report *"),
    ("load 2026-10-01T12:30:00.123Z x", "load 2026-10-02 01:02:03,5 UTC x", "load * x"),
    ("dag__daily__2026-10-01T00:00:00+00:00", "dag__daily__2026-10-02", "dag__daily__*"),
    ("made Thu Oct 01 12:30:00 CEST 2026", "made Fri Oct  2 01:02:03 2026", "made *"),
    ("20261001_1230 etl", "20261001123000 etl", "* etl"),
    ("load at 12:30", "load at 9:30 PM", "load at *"),
    ("etl 1700000000", "etl 1800000000123", "etl *"),
    ("application_1628109047826_0018", "application_1628109047999_1317105", "application_*"),
    ("app-20161116163331-0000", "app-20161116163332-0001", "app-*"),
    ("job run 853204829165334", "job run 12", "job run *"),
    ("of 0a1b2c3d-0000-1111-2222-333344445555", "of 1F2E3D4C5B", "of *"),
    ("load run 7", "load run 0012", "load run *"),
    ("batch = 12 of x", "batch = 3 of x", "batch = * of x"),
    ("q5 attempt_2", "q5 attempt_3", "q5 attempt_*"),
    ("runId=3", "runId=4", "runId=*"),
]
"""Names of two runs of one query, and what is left of both."""

KEPT = [
    *("q1", "q2", "tpcds_q39b", "v2", "top 10", "top 100 customers", "run", "step 2", "query 17"),
    *("report 2026", "report 2025", "bench-2026_q1", "run 2.4 benchmark", "dryrun 5", "runs5"),
    *("count at App.scala:12", "save at x.py:25", "collect at <console>:30", "$anonfun$run$2"),
    *("decade10", "facade12", "deadbeef", "cafe2024", "order 12345678", "account 123456789012"),
    *("ratio 1:10", "section 20261399", "part 3 of 7", "s3://bucket/t1", "version 3.5.12", "99:99"),
]
"""Names that tell queries apart by numbers."""


@pytest.mark.parametrize(("one", "other", "left"), SAME)
def test_runs_of_one_query_have_one_name(one: str, other: str, left: str) -> None:
    assert family(one) == family(other) == left


@pytest.mark.parametrize("name", KEPT)
def test_numbers_that_tell_queries_apart_stay(name: str) -> None:
    assert family(name) == name


def test_the_query_number_behind_a_date_stays() -> None:
    assert family("bench-20261001-01") == "bench-*-01" != family("bench-20261001-02")
    assert family("tpcds_2026-10-01_q01") == "tpcds_*_q01"


def test_a_name_of_nothing_but_dates_and_ids_tells_no_queries_apart() -> None:
    assert not any(map(tells_apart, ("", " - ", "2026-10-01 12:30", "20261001123000", "1f2e3d4c")))
    assert all(map(tells_apart, ("q1", "é", "daily 20261001", "5")))


PIECES = [text for *texts, _ in SAME for text in texts] + KEPT + ["_", "-", " ", ":", ".", "x", "1"]


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_what_is_left_is_part_of_the_name(text: str) -> None:
    left = family(text)
    rest = " ".join(text.split())
    for part in left.split("*"):
        at = rest.find(part)
        assert at >= 0
        rest = rest[at + len(part) :]


@given(st.text(max_size=60), st.integers(0, 60))
def test_names_without_digits_stay(text: str, at: int) -> None:
    plain = "".join(letter for letter in text if not letter.isnumeric())
    assert family(plain) == " ".join(plain.encode("utf-8", "replace").decode().split())
