"""A release: what is built installs and runs where nothing else of iqcar is, jar and package."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import iqcar
from scripts import release
from tests.support import SUPPORT
from tests.support.listener_spark import APP_TIMEOUT_S, PLUGIN, environment, spark_params

pytestmark = [
    pytest.mark.long,
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
    (wheel,) = (name for name in files if name.endswith(".whl"))
    assert wheel.startswith(f"iqcar-{version}-cp"), "the kernels are compiled"
    assert f"iqcar-{version}.tar.gz" in files
    assert {f"{plugin}{ending}" for ending in (".pom", ".jar", "-sources.jar")} <= files
    assert {f"{plugin}-javadoc.jar", f"{plugin}.jar.sha1", f"{plugin}.jar.md5"} <= files
    assert not [name for name in files if "tests" in name or "metadata" in name]


IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="released"/>
  <resolvers><ibiblio name="released" m2compatible="true" root="file://{repository}"/></resolvers>
</ivysettings>
"""
"""Only the released repository: nothing is asked of a network."""


@pytest.mark.parametrize("home", spark_params())
def test_packages_attaches_the_plugin_by_its_maven_coordinates(
    released: Path, home: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(IVY_SETTINGS.format(repository=released / "maven"))
    (tmp_path / "logs").mkdir()
    conf = {
        "spark.jars.ivySettings": settings,
        "spark.jars.ivy": tmp_path / "ivy",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (tmp_path / "logs").as_uri(),
        "spark.ui.enabled": "false",
        **PLUGIN,
    }
    flags = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    package = f"org.iqcar:iqcar-listener:{iqcar.__version__}"
    submit = [home / "bin/spark-submit", "--master", "local[2]", "--packages", package, *flags]
    done = subprocess.run(
        [*submit, SUPPORT / "attached_job.py", "rows"],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=APP_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    assert len(iqcar.read(tmp_path / "logs").task_records)
