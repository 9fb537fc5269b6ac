"""Waits for a slow object store, in a Spark that reads it through Hadoop's own client."""

from __future__ import annotations

import re

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import iqcar
from tests.support import SUPPORT
from tests.support.hadoop_jars import s3a_jars
from tests.support.listener_spark import (
    JAR,
    PLUGIN,
    App,
    records_of,
    run_alone,
    share,
    spark_params,
)
from tests.support.object_stores import slow_s3

pytestmark = [pytest.mark.long, pytest.mark.spark]

DELAY_S = 1.0
KEYS = {"aws_access_key_id": "somebody", "aws_secret_access_key": "secret"}
CLIENT = "spark.hadoop.fs.s3a"
CLASSIC = "classic"
"""A bucket that is read through the stream that counts its requests for its task."""


@pytest.fixture(scope="module", params=spark_params())
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> App:
    """An application that reads the same files at a slow store and in a folder."""
    client_jars = s3a_jars(request.param / "jars")
    folder = tmp_path_factory.mktemp("store")
    files = folder / "files"
    files.mkdir()
    for name in ("lines.txt", "whole.txt"):
        (files / name).write_text("\n".join(map(str, range(10_000))))
    pq.write_table(
        pa.table({"number": pa.array(range(10_000), pa.int64())}), files / "rows.parquet"
    )
    with slow_s3(DELAY_S, breaking=CLASSIC) as address:
        client = boto3.client("s3", endpoint_url=address, region_name="us-east-1", **KEYS)
        for bucket in ("bucket", CLASSIC):
            client.create_bucket(Bucket=bucket)
            for file in files.iterdir():
                client.upload_file(str(file), bucket, file.name)
        conf = {
            **PLUGIN,
            f"{CLIENT}.bucket.{CLASSIC}.input.stream.type": "classic",
            f"{CLIENT}.endpoint": address,
            f"{CLIENT}.endpoint.region": "us-east-1",
            f"{CLIENT}.path.style.access": "true",
            f"{CLIENT}.access.key": KEYS["aws_access_key_id"],
            f"{CLIENT}.secret.key": KEYS["aws_secret_access_key"],
            f"{CLIENT}.aws.credentials.provider": (
                "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
            ),
        }
        places = ["store=s3a://bucket", f"{CLASSIC}=s3a://{CLASSIC}", f"folder={files.as_uri()}"]
        job = [str(SUPPORT / "store_jobs.py"), *places]
        jars = ",".join(map(str, [JAR, *client_jars]))
        done = run_alone(request.param, folder, job, conf=conf, options=("--jars", jars))
    assert done.exit_code == 0, done.errors[-3000:]
    return done


@pytest.mark.parametrize("kind", ["text", "parquet"])
def test_a_task_that_reads_the_store_waits_for_it_and_for_no_disk(app: App, kind: str) -> None:
    reads = [r for r in app.records(f"store {kind}") if r["off_cpu_ns"] > DELAY_S * 0.9e9]
    assert reads
    for record in reads:
        assert record["waits_ns"]["object_store"] > DELAY_S * 0.8e9, record
        assert share(record, "object_store") > 0.6, record
        assert share(record, "io_read", "io_write") < 0.1, record


@pytest.mark.parametrize("kind", ["text", "parquet"])
def test_the_same_files_in_a_folder_are_no_store(app: App, kind: str) -> None:
    for record in app.records(f"folder {kind}"):
        assert record["waits_ns"]["object_store"] == 0, record  # said, not left out


def test_requests_of_streams_that_a_task_opens_are_counted_with_those_that_broke(app: App) -> None:
    (record,) = (r for r in app.records(f"{CLASSIC} binary") if "store_requests" in r)
    assert record["store_requests"] >= 2, record
    assert record["store_request_ms"] >= record["store_requests"] * DELAY_S * 900, record
    assert record["store_retries"] >= 1, record
    (written,) = app.records(f"{CLASSIC} write")
    assert written["store_requests"] >= 1, written
    assert "store_retries" not in written, written
    for kind in ("binary", "write"):
        for record in app.records(f"folder {kind}"):
            assert "store_requests" not in record, record


def test_parts_sum_and_no_query_is_blamed_for_the_store(app: App) -> None:
    found = iqcar.diagnose(iqcar.read([app.log], query_by="job-group"))
    waits, records = found.waits, found.tables.task_records
    store = records["object_store_ms"].sum()
    assert store > 2 * DELAY_S * 800
    assert waits["io_read_ms"].sum() < 0.2 * store
    assert waits["other_wait_ms"].sum() >= store - 1
    for end in app.ends:
        (record,) = records_of(end)
        assert sum(record["waits_ns"].values()) == record["off_cpu_ns"]
    (doubt,) = (doubt for doubt in found.doubts if "waited for an object store" in doubt)
    assert re.search(r"\([0-9]+ requests of [0-9.]+ m?s on average, [0-9]+ tried again\)", doubt)
    assert records["store_requests"].sum() >= 3
