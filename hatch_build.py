"""Puts the Spark plugin's jar into the wheel: built with Maven where it is missing or old."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

JAR = Path("listener/target/iqcar-listener.jar")
IN_WHEEL = "iqcar/data/iqcar-listener.jar"


class ListenerHook(BuildHookInterface[Any]):
    """Where the jar cannot be built, the wheel is made without; `iqcar conf` says what to do."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the jar to the files of a wheel or an sdist; an editable install reads the build."""
        if version == "editable":
            return
        root = Path(self.root)
        jar = root / JAR
        problem = build(root / "listener") if is_old(jar, root / "listener") else ""
        if problem:
            self.app.display_warning(f"this build has no Spark plugin: {problem}")
        else:
            to = IN_WHEEL if self.target_name == "wheel" else JAR.as_posix()
            build_data["force_include"][str(jar)] = to


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
