"""No secret that a user wrote into a description, statement or message reaches a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.eventlog import read_logs
from iqcar.eventlog.redact import MAX_TEXT, redact_text
from synthetic_log import SyntheticLog, stage_info

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
]  # fmt: skip


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


def test_no_table_holds_a_secret_from_anywhere_in_the_log(tmp_path: Path) -> None:
    leak = f"password={HIDDEN}"
    log = (
        SyntheticLog()
        .app(name=f"etl {leak}")
        .environment(spark_task_cpus="2", spark_my_password=HIDDEN, spark_ssl_keyPassword=HIDDEN)
    )
    properties = {
        "spark.job.description": leak,
        "spark.jobGroup.id": leak,
        "spark.scheduler.pool": leak,
        "spark.sql.execution.id": "0",
        "spark.other.secret": HIDDEN,
    }
    log.sql(0, description=leak, physicalPlanDescription=leak, details=leak)
    info = stage_info(0, **{"Stage Name": leak, "Failure Reason": leak})
    log.job(0, [info], properties=properties).stage(info, properties).task(0).stage_end(info)
    log.executor("1", "h1").executor_removed("1", 5, leak)
    log.sql_end(0, error=leak).end()
    path = log.write(tmp_path / "app-1")
    for name, frame in read_logs([path]):
        assert HIDDEN not in frame.to_csv(), name
