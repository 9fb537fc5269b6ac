"""Measure what caps cost the scheduler: rounds of offers with a job waiting in each of 200 pools.

    scripts/bench offers           20 turns (about a minute)
    scripts/bench offers --full    100 turns

One Spark, in whose JVM Spark's own root pool and pools without a cap, with a loose and with a
strict one take turns; all ratios are of neighbouring turns.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from pathlib import Path

from scripts.benchmarks import JARS, parser_of, sized, spark_flags, spread

POOLS = 200
ROUNDS = 50
"""Rounds of one turn: tens of ms, so that little else happens meanwhile."""
WARM_UP = 10
"""Turns after which the JVM has compiled what a round runs."""
LABELS = {
    "spark": "Spark's own root pool",
    "none": "pools of rules, no cap",
    "loose": "all pools capped",
    "strict": "all pools capped, strict",
}


def measure(folder: Path, turns: int) -> dict[str, list[float]]:
    """CPU ns per round of each kind, one figure per turn."""
    rules = folder / "rules.json"
    pools = [{"name": f"p{number}"} for number in range(POOLS)]
    rules.write_text(json.dumps({"schema_version": "1", "pools": pools}))
    settings = {
        "spark.driver.extraClassPath": ":".join(map(str, JARS)),
        "spark.plugins": "org.iqcar.spark.IqcarPlugin",
        "spark.iqcar.rules": str(rules),
        "spark.iqcar.rules.strict": "true",
        "spark.iqcar.host.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    words = ["--master local[2]", *spark_flags(settings), "pyspark-shell"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(words)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    rounds = spark._jvm.org.iqcar.spark.driver.rules.OfferRounds
    said = rounds.time(spark.sparkContext._jsc, POOLS, ROUNDS, WARM_UP + turns)
    spark.sparkContext.cancelAllJobs()
    spark.stop()
    lines = (line.split() for line in said.splitlines())
    return {kind: [float(ns) for ns in turns][WARM_UP:] for kind, *turns in lines}


def report(ns: dict[str, list[float]]) -> None:
    """Print rounds per CPU second of the scheduler's thread, and the ratios of times."""
    print(f"pools, each with a job that waits      {POOLS:7}")
    print("rounds per CPU second                   median")
    for kind, label in LABELS.items():
        print(f"{label:38} {1e9 / statistics.median(ns[kind]):7,.0f}")
    print("CPU time of a round / Spark's own       median   range")
    for kind, label in list(LABELS.items())[1:]:
        pairs = zip(ns[kind], ns["spark"], strict=True)
        print(f"{label:38} {spread([own / plain for own, plain in pairs])}")


def main() -> None:
    """Measure, and print."""
    options = parser_of(__doc__, full="100 turns of each kind").parse_args()
    with tempfile.TemporaryDirectory(prefix="iqcar-offers-") as name:
        report(measure(Path(name), sized(options, quick=2, usual=20, full=100)))


if __name__ == "__main__":
    main()
