"""Puts into the wheel the Spark plugin's jar, built with Maven, and the kernels, compiled."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

JAR = Path("listener/target/iqcar-listener.jar")
IN_WHEEL = "iqcar/data/iqcar-listener.jar"


class Hook(BuildHookInterface[Any]):
    """Where the jar or the kernels cannot be built, the wheel is made without.

    `iqcar conf` says what to do without the jar, and `iqcar --version` tells that kernels are plain
    Python.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the jar to the files of a wheel or an sdist, and the kernels to those of a wheel.

        An editable install reads the jar where it is built, and the kernels beside their sources.
        """
        root = Path(self.root)
        if self.target_name == "wheel":
            self._compile_kernels(root, build_data, editable=version == "editable")
        if version == "editable":
            return
        jar = root / JAR
        problem = build(root / "listener") if is_old(jar, root / "listener") else ""
        if problem:
            self.app.display_warning(f"this build has no Spark plugin: {problem}")
        else:
            to = IN_WHEEL if self.target_name == "wheel" else JAR.as_posix()
            build_data["force_include"][str(jar)] = to

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the wheel has now."""
        for folder in build_data.get("compiled_in", []):
            shutil.rmtree(folder, ignore_errors=True)

    def _compile_kernels(self, root: Path, build_data: dict[str, Any], editable: bool) -> None:
        sys.path.insert(0, str(root))
        package, folder = root / "analyzer" / "iqcar", tempfile.mkdtemp()
        build_data["compiled_in"] = [folder]
        try:
            import build_kernels

            made = build_kernels.build(package, package if editable else Path(folder))
        except (Exception, SystemExit) as problem:
            said = (str(problem).strip() or type(problem).__name__).splitlines()[0]
            self.app.display_warning(f"kernels stay plain Python, which is slower: {said}")
            return
        if not editable:
            build_data["force_include"][str(made)] = f"iqcar/{made.name}"
            build_data["pure_python"], build_data["infer_tag"] = False, True


def is_old(jar: Path, listener: Path) -> bool:
    """Tell whether the jar is missing or older than a source."""
    sources = [listener / "pom.xml", *(p for p in (listener / "src").rglob("*") if p.is_file())]
    if not jar.is_file():
        return True
    built = jar.stat().st_mtime
    return any(path.is_file() and path.stat().st_mtime > built for path in sources)


def build(listener: Path) -> str:
    """Build the jar; return what went wrong, or nothing."""
    maven = shutil.which("mvn")
    if not maven:
        return "no mvn on PATH and no up-to-date listener/target/iqcar-listener.jar"
    # Neither its tests nor the jars it is checked to link with are wanted here.
    command = [maven, "-q", "-B", "package", "-Dmaven.test.skip=true", "-Dmdep.skip=true"]
    done = subprocess.run(command, cwd=listener, capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    said = (done.stdout + done.stderr).strip().splitlines() or ["it said nothing"]
    return f"mvn failed: {said[0]}"
