"""The list of what is supported is what the builds, the settings and the tests really run on."""

from __future__ import annotations

import os
import platform
import re
import sys

import pytest

from scripts import release
from scripts.supported import JAVAS, PLATFORMS, PYTHONS, SPARKS, Coverage, coverage_of
from tests.conftest import REPO
from tests.support.listener_spark import spark_homes, spark_version

LINES = [spark.line for spark in SPARKS]


def test_the_package_declares_the_pythons_of_the_list() -> None:
    pyproject = (REPO / "pyproject.toml").read_text("utf-8")
    assert re.findall(r"Python :: (3\.\d+)", pyproject) == list(PYTHONS)
    assert f'requires-python = ">={next(iter(PYTHONS))}"' in pyproject


def test_the_plugin_is_linked_with_the_releases_of_the_list() -> None:
    pom = release.pom_of(REPO).find(f"{release.POM}properties")
    assert pom is not None
    built = [tag.text for tag in pom if re.fullmatch(r".*spark\d+\.version", tag.tag)]
    assert built == [spark.linked for spark in SPARKS if spark.linked]
    for spark in SPARKS:
        assert spark.linked.startswith(spark.line) or not spark.linked


def test_continuous_integration_runs_the_portable_tests_where_the_list_says() -> None:
    script = (REPO / "scripts" / "test").read_text("utf-8")
    portable = [spark.line for spark in SPARKS if spark.tested is Coverage.PORTABLE]
    assert re.findall(r"(?m)^portable=(\S+)$", script) == portable


@pytest.mark.skipif(not os.environ.get("CI"), reason="the list is about continuous integration")
def test_what_runs_all_tests_is_listed_so() -> None:
    assert PYTHONS[f"{sys.version_info.major}.{sys.version_info.minor}"] is Coverage.ALL
    assert PLATFORMS[platform.system(), platform.machine()] is Coverage.ALL


def test_the_spark_that_all_tests_run_on_is_listed_so() -> None:
    homes = [] if os.environ.get("IQCAR_SPARK_HOMES") else spark_homes()[:1]
    for home in homes:
        line = ".".join(spark_version(home).split(".")[:2])
        assert [spark.line for spark in SPARKS if spark.tested is Coverage.ALL] == [line]


def test_no_cell_claims_more_than_its_spark_or_its_python_alone() -> None:
    order = list(Coverage)
    for spark in SPARKS:
        for python, tested in PYTHONS.items():
            together = coverage_of(spark, python)
            assert order.index(together) >= max(order.index(spark.tested), order.index(tested))


def test_each_java_that_is_tested_by_hand_has_a_spark_of_the_list() -> None:
    assert [java.line in LINES for java in JAVAS] == [
        java.tested is Coverage.SMOKE for java in JAVAS
    ]
    assert [java.release for java in JAVAS if java.tested is Coverage.ALL] == ["17"]
