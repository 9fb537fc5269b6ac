"""What iqcar runs with, and what its tests run on: the one list, and the page printed from it.

`scripts/sparks` installs the Sparks of it, `scripts/javas` the Javas, and
`tests/project/test_supported.py` compares it with pyproject.toml, the pom, .ci/run and the machine
on which the tests run.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.internals import internals_section


class Coverage(Enum):
    """How much of the tests runs on something, from most to least."""

    ALL = "all tests", "in continuous integration"
    PORTABLE = "portable tests", "the Spark tests marked portable, in continuous integration"
    SMOKE = (
        "smoke tests",
        "the Spark tests marked smoke: `scripts/test --all-sparks`, `--all-javas`, by hand",
    )
    UNTESTED = "untested", "nothing runs there; reports are welcome"

    @property
    def sentence(self) -> str:
        """What runs, and where."""
        return self.value[1]

    def __str__(self) -> str:
        return self.value[0]


@dataclass(frozen=True)
class Spark:
    """A line of Spark that the plugin supports."""

    line: str
    scala: str
    tested: Coverage
    linked: str = ""
    """The release whose jars every reference of the plugin is checked against."""


SPARKS = (
    Spark("3.3", "2.12", Coverage.SMOKE),
    Spark("3.4", "2.12", Coverage.SMOKE),
    Spark("3.5", "2.12", Coverage.PORTABLE, "3.5.7"),
    Spark("4.0", "2.13", Coverage.SMOKE, "4.0.1"),
    Spark("4.1", "2.13", Coverage.SMOKE),
    Spark("4.2", "2.13", Coverage.SMOKE, "4.2.0"),
    Spark("4.3", "2.13", Coverage.ALL),
)
PYTHONS = {
    "3.10": Coverage.UNTESTED,
    "3.11": Coverage.ALL,
    "3.12": Coverage.UNTESTED,
    "3.13": Coverage.UNTESTED,
}
"""What pyproject.toml declares. Which of them a Spark can use is in Spark's own documentation."""
PLATFORMS = {
    ("Linux", "x86_64"): Coverage.ALL,
    ("Linux", "aarch64"): Coverage.UNTESTED,
    ("macOS", "arm64"): Coverage.UNTESTED,
    ("Windows", "x86_64"): Coverage.UNTESTED,
}


@dataclass(frozen=True)
class Java:
    """A Java that the plugin runs on; Spark 3.3 to 3.5 take 8 to 17, Spark 4 takes 17 and newer."""

    release: str
    tested: Coverage
    line: str = ""
    """The line of Spark that its smoke tests run on."""

    def told(self) -> str:
        """What runs on it."""
        return f"{self.tested}, Spark {self.line}" if self.line else str(self.tested)


JAVAS = (
    Java("8", Coverage.UNTESTED),
    Java("11", Coverage.SMOKE, "3.5"),
    Java("17", Coverage.ALL),
    Java("21", Coverage.SMOKE, "4.3"),
    Java("25", Coverage.SMOKE, "4.3"),
)


def coverage_of(spark: Spark, python: str) -> Coverage:
    """Tell what runs on a Spark with a Python: no more than on either alone."""
    return max(spark.tested, PYTHONS[python], key=list(Coverage).index)


INTRODUCTION = """\
What the tests run on. Reading event logs needs Python alone, and takes those of Spark 1.3 to 4.x.
The table is about what runs with Spark: the [plugin](listener.md), `iqcar demo`, `--on-spark` and
`iqcar-lab experiment`."""
NOTES = """\
*Linked with* is the release whose jars each reference of the plugin to Spark and Scala is checked
against when it is built. Spark 3.3 runs Python functions with Python 3.10 or older only: the smoke
tests leave such functions out there."""


def compatibility_page(printed: str) -> str:
    """Print the matrix; `printed` says that the page is made from code."""
    pythons = " | ".join(f"Python {python}" for python in PYTHONS)
    lines = ["# Compatibility", printed.rstrip(), "", *INTRODUCTION.splitlines(), ""]
    lines += [f"| Spark | Scala | linked with | {pythons} |"]
    lines += ["|---|---|---|" + "---|" * len(PYTHONS)]
    for spark in SPARKS:
        cells = " | ".join(str(coverage_of(spark, python)) for python in PYTHONS)
        lines += [f"| {spark.line} | {spark.scala} | {spark.linked} | {cells} |"]
    lines += ["", "| | what runs |", "|---|---|"]
    lines += [f"| {coverage} | {coverage.sentence} |" for coverage in Coverage]
    lines += ["", "| platform | tests |", "|---|---|"]
    lines += [f"| {' '.join(platform)} | {coverage} |" for platform, coverage in PLATFORMS.items()]
    lines += ["", "| Java | tests |", "|---|---|"]
    lines += [f"| {java.release} | {java.told()} |" for java in JAVAS]
    lines += ["", *NOTES.splitlines(), "", *internals_section()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["javas"]:
        sys.stdout.writelines(f"{java.release} {java.line}\n" for java in JAVAS if java.line)
    else:
        sys.stdout.write(" ".join(spark.line for spark in SPARKS) + "\n")
