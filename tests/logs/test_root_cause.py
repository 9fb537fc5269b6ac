"""What failed is told in a line: the root of the chain, bounded, without secrets, at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.base.units import cut
from iqcar.logs.events.root_cause import MOST_CHARACTERS, is_vague, root_cause
from tests.support.examples import examples
from tests.support.hostile_texts import hostile

FRAMES = "\n\tat org.apache.spark.scheduler.Task.run(Task.scala:147)\n\tat java.lang.Thread.run(T)"
LOST = "Lost task 1.3 in stage 5.0 (TID 20) (7a5c48b7798f executor driver): "
ABORTED = (
    f"Job aborted due to stage failure: Task 1 in stage 5.0 failed 4 times, most recent failure: "
    f"{LOST}"
)
DRIVER = (
    "\n\nDriver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler.a(DAGScheduler.scala)"
)
PYTHON = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/app/job.py", line 60, in fail_udf
    raise ValueError("bad row")
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, ""),
        (" \n", ""),
        (f"java.lang.RuntimeException: got a 3{FRAMES}", "RuntimeException: got a 3"),
        (f"{ABORTED}java.lang.RuntimeException: no{FRAMES}{DRIVER}", "RuntimeException: no"),
        ("Lost task 3.0 in stage 2.0 (TID 19, localhost): a.b.C: no", "C: no"),
        (f"{PYTHON}ValueError: bad row\n{FRAMES}", "PythonException: ValueError: bad row"),
        (
            f"{ABORTED}{PYTHON}pyspark.errors.base.PySparkTypeError: [X] two\nlines\n{FRAMES}",
            "PythonException: PySparkTypeError: [X] two",
        ),
        (
            f"{ABORTED}org.apache.spark.shuffle.FetchFailedException: x{FRAMES}\n"
            f"Caused by: java.io.IOException: FAILED_TO_UNCOMPRESS(5){FRAMES}{DRIVER}",
            "FetchFailedException: IOException: FAILED_TO_UNCOMPRESS(5)",
        ),
        (
            "Job aborted due to stage failure: ShuffleMapStage 3 (a at b) has failed the maximum "
            "allowable number of times: 4. Most recent failure reason:\n"
            f"org.apache.spark.shuffle.FetchFailedException: Failed to connect to h:7337{FRAMES}",
            "FetchFailedException: Failed to connect to h:7337",
        ),
        (
            f"org.apache.spark.SparkException: Could not execute broadcast in 300 secs.{FRAMES}\n"
            f"Caused by: java.util.concurrent.TimeoutException: Futures timed out{FRAMES}",
            "SparkException: Could not execute broadcast in 300 secs.",
        ),
        (f"java.util.concurrent.TimeoutException: no{FRAMES}", "TimeoutException: no"),
        (
            f"{ABORTED}ExecutorLostFailure (executor 2 exited caused by one of the running tasks) "
            f"Reason: Command exited with code 137{DRIVER}",
            "ExecutorLostFailure: Command exited with code 137",
        ),
        (
            "Job aborted due to stage failure: Total size of serialized results of 3 tasks "
            "(1.1 GiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)",
            "Total size of serialized results of 3 tasks (1.1 GiB) is bigger than "
            "spark.driver.maxResultSize (1024.0 MiB)",
        ),
        ("Job 79 cancelled because SparkContext was shut down",) * 2,
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==\nSELECT 1/0", 
         "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"),
        ("Found duplicate columns:\n`a`\n`b`", "Found duplicate columns: `a`"),
        (
            "a.B: x\n\tSuppressed: c.D: y\n\t\tat e\n\tCaused by: c.E: z\nCaused by: f.G: root",
            "G: root",
        ),
        ("java.lang.NullPointerException", "NullPointerException"),
    ],
)  # fmt: skip
def test_the_root_of_an_error_is_its_line(text: str | None, line: str) -> None:
    assert root_cause(text) == line


WORDS = st.text("abc 7\t:é.$()", min_size=1, max_size=40).map(str.strip).filter(bool)
NAMES = st.sampled_from(["java.io.IOException", "a.b.Broken", "x.Y$Error", "org.Spark_1"])


@examples(200)
@given(st.lists(st.tuples(NAMES, WORDS), min_size=1, max_size=30), st.booleans(), st.booleans())
def test_a_chain_ends_in_its_last_cause(
    chain: list[tuple[str, str]], aborted: bool, again: bool
) -> None:
    text = f"{FRAMES}\nCaused by: ".join(f"{name}: {said}" for name, said in chain) + FRAMES
    name, said = chain[-1]
    expected = root_cause(f"{name}: {said}")
    text = f"{ABORTED}{text}{DRIVER}" if aborted else text
    # Where the driver's own trace stands below, it ends in the same cause.
    text += f"\nCaused by: {name}: {said}{FRAMES}" if again else ""
    assert root_cause(text) == expected
    assert expected.startswith(name.rpartition(".")[2])


@examples(300)
@given(st.text(max_size=3_000))
def test_any_text_makes_one_bounded_line(text: str) -> None:
    line = root_cause(text)
    assert len(line) <= MOST_CHARACTERS
    assert line == " ".join(line.split())
    assert is_vague(line) or text.strip()


def test_a_text_made_to_cost_much_is_told_all_the_same() -> None:
    for one in hostile(40):
        text = one.text(300_000)
        for whole in (
            text,
            f"{ABORTED}{text}",
            "\nCaused by: ".join(text[i::50] for i in range(50)),
        ):
            assert len(root_cause(whole)) <= MOST_CHARACTERS


def test_causes_at_the_end_of_a_long_text_are_found() -> None:
    text = f"a.B: x{FRAMES * 5_000}\nCaused by: c.Root: 42{FRAMES}"
    assert root_cause(text) == "Root: 42"


def test_no_secret_is_kept_and_none_is_half_cut() -> None:
    hidden = "hunter2Hunter2"
    for before in (10, MOST_CHARACTERS - 30, MOST_CHARACTERS - 5):
        line = root_cause(f"java.io.IOException: {'x' * before} password={hidden} at db")
        assert hidden not in line
        assert not any(hidden[:length] in line for length in (5, 8))


@examples(200)
@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200), st.integers(30, 120))
def test_a_cut_leaves_whole_numbers(numbers: list[int], width: int) -> None:
    text = ", ".join(f"{number:,}" for number in numbers)
    short = cut(text, width)
    assert len(short) <= width
    kept = short.removesuffix("…").rstrip(", ").split(", ")
    assert kept == text.split(", ")[: len(kept)]
