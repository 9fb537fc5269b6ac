"""A release: what is built installs and runs where nothing else of iqcar is, jar and package."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import iqcar
from scripts import release
from tests.support.listener_spark import spark_homes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("mvn"), reason="a release needs Maven"),
]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `scripts/release --dry-run` builds, after its own checks."""
    out = tmp_path_factory.mktemp("release") / "dist"
    release.release(out, dry_run=True)
    return out


def test_a_release_holds_wheel_sdist_and_what_maven_central_asks_for(released: Path) -> None:
    version = iqcar.__version__
    files = {path.relative_to(released).as_posix() for path in released.rglob("*")}
    plugin = f"maven/org/iqcar/iqcar-listener/{version}/iqcar-listener-{version}"
    assert {f"iqcar-{version}.tar.gz", f"iqcar-{version}-py3-none-any.whl"} <= files
    assert {f"{plugin}{ending}" for ending in (".pom", ".jar", "-sources.jar")} <= files
    assert {f"{plugin}-javadoc.jar", f"{plugin}.jar.sha1", f"{plugin}.jar.md5"} <= files
    assert not [name for name in files if "tests" in name]
