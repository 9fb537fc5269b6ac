"""Kinds of errors: data that fits its schema, and the kind that Spark's own words are of."""

from __future__ import annotations

import json

import jsonschema
import pytest
import re2

from iqcar.enums import QueryStatus
from iqcar.rules.vocabulary import STOPPED, error_key, errors, query_status, rules_folder

LINES = {
    "Job 79 cancelled because SparkContext was shut down": "shut-down",
    "[SPARK_JOB_CANCELLED] Job 3 cancelled part of cancelled job group g": "cancelled",
    "Job 4 cancelled because killed via the Web UI": "cancelled",
    "PythonException: ValueError: bad row": "python",
    "RuntimeException: got a 3, failing": "exception",
    "FetchFailedException: IOException: FAILED_TO_UNCOMPRESS(5)": "corrupt-shuffle",
    "FetchFailedException: Failed to connect to h/10.0.0.1:7337": "fetch-failed",
    "MetadataFetchFailedException: Missing an output location for shuffle 0": "fetch-failed",
    "SparkException: Could not execute broadcast in 300 secs.": "broadcast-timeout",
    "SparkException: Cannot broadcast the table that is larger than 8.0 GiB": "broadcast-size",
    "ExecutorLostFailure: Executor heartbeat timed out after 159083 ms": "executor-lost-silent",
    "Total size of serialized results of 3 tasks (1.1 GiB) is bigger than "
    "spark.driver.maxResultSize": "result-size",
    "OutOfMemoryError: Java heap space": "heap-memory",
    "SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65 bytes": "heap-memory",
    "OutOfDirectMemoryError: failed to allocate 16777216 byte(s)": "direct-memory",
    "GpuSplitAndRetryOOM: GPU OutOfMemory: could not split inputs": "gpu-memory",
    "IOException: No space left on device": "disk-full",
    "FileNotFoundException: /data/part-0 (Too many open files)": "too-many-files",
    "FileNotFoundException: File does not exist: hdfs://n/data": "not-found",
    "[TABLE_OR_VIEW_NOT_FOUND] The table or view `t` cannot be found.": "not-found",
    "AccessControlException: Permission denied: user=ann, access=WRITE": "permission",
    "AmazonS3Exception: Forbidden (Service: S3; Status Code: 403)": "permission",
    "ClassNotFoundException: org.example.Thing": "class-missing",
    "PythonException: ModuleNotFoundError: No module named 'numpy'": "class-missing",
    "NotSerializableException: org.example.Client": "serialisation",
    "KryoException: Buffer overflow. Available: 0, required: 12": "kryo-buffer",
    "CompileException: Code grows beyond 64 KB": "codegen",
    "ConnectException: Connection refused": "connection",
    "IOException: Connection reset by peer": "connection",
    "AnalysisException: [UNRESOLVED_COLUMN] A column cannot be resolved": "analysis",
    "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012": "value",
    "[PATH_ALREADY_EXISTS] Path file:/x already exists.": "already-exists",
    "RuntimeException: file:/x is not a Parquet file": "bad-file",
    "SparkException: Python worker exited unexpectedly (crashed)": "python-worker",
    "Executor killed by driver.": "released",
    "Container c exited from explicit termination request.": "released",
    "Executor decommission: spark scale down": "released",
    "Container c on host h was preempted.": "preempted",
    "Executor Process Lost": "executor-lost",
    "Command exited with code 1": "executor-start",
    "Container marked as failed: c on host: h. Exit status: 56. Diagnostics: d":
        "executor-lost-heartbeat",
    "Stage failed because barrier task ResultTask(0, 1) finished unsuccessfully.": "barrier",
    "something else": "unknown",
    "": "unknown",
}  # fmt: skip


@pytest.mark.parametrize(("line", "key"), LINES.items())
def test_an_error_is_of_the_kind_that_its_words_tell(line: str, key: str) -> None:
    assert error_key(line) == key


def test_the_vocabulary_fits_its_schema_and_its_patterns_are_read() -> None:
    data, schema = (
        json.loads((rules_folder() / name).read_text(encoding="utf-8"))
        for name in ("errors.json", "errors.schema.json")
    )
    jsonschema.validate(data, schema)
    patterns = [words for one in errors().values() for words in one.words]
    assert all(re2.compile(words) for words in patterns)
    assert set(LINES.values()) <= errors().keys()
    assert [key for key, one in errors().items() if not one.words] == ["unknown"]
    assert set(STOPPED) <= errors().keys()


def test_the_status_of_a_query_follows_from_its_end_and_its_error() -> None:
    assert query_status(True, False, "") is QueryStatus.SUCCEEDED
    assert query_status(False, False, "") is QueryStatus.RUNNING
    assert query_status(True, True, "C: no") is QueryStatus.FAILED
    assert query_status(False, True, "") is QueryStatus.FAILED
    assert query_status(True, True, "Job 3 cancelled") is QueryStatus.CANCELLED
