"""What attaches the plugin: Spark settings in the forms people need, and the sampler of hosts."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

from iqcar.errors import IqcarError, UsageError

PLUGIN = "org.iqcar.spark.IqcarPlugin"
"""Measures every task on every executor; the driver's half registers the listener."""

LISTENER = "org.iqcar.spark.IqcarListener"
"""Writes pools and slots into the event log; measures tasks in local mode."""

DEFAULT_LOG_DIR = "/tmp/spark-events"  # noqa: S108 - Spark's own default, named to warn of it
"""Spark's default folder for event logs; Spark does not create it."""

EXPECTED_BYTES = (
    "expect in the event log, uncompressed, 0.6 KB a task (2 KB where it is long) and 1.4 MB an "
    "hour of each busy host, of all hosts 1 MB a minute at most (spark.iqcar.host.bytes)"
)
"""What the plugin adds to an event log with its default settings; `scripts/bench tiny_tasks`."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""Text that begins with a scheme; a single letter and a colon would be a Windows drive."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_./:@+=~-]")
"""Characters of a path that a shell or Spark's settings may split or interpret."""

_LISTED = re.compile(r"[],*?{}[%\\]")
"""Spark decodes the URLs of jars, expands them as globs and joins them with commas again."""


@dataclass(frozen=True)
class SparkConf:
    """The settings that attach iqcar to a job.

    The job's own ``plugins``, ``listeners`` and ``jars`` go into the same three settings: each is a
    comma-separated list, and if Spark gets one twice, it uses the last.
    """

    jar: str
    log_dir: str = ""
    listener: bool = True
    jars: Sequence[str] = ()
    plugins: Sequence[str] = ()
    listeners: Sequence[str] = ()
    rules: str = ""
    """Path of the compiled rules that the plugin applies; the driver must be able to read it."""

    def settings(self) -> dict[str, str]:
        """Return setting → value, the jar included.

        Raises UsageError if Spark would misread a value.
        """
        listeners = [*self.listeners, *([LISTENER] if self.listener else [])]
        found = {
            "spark.jars": ",".join(map(_jar_url, [*self.jars, self.jar])),
            "spark.plugins": ",".join([*self.plugins, PLUGIN]),
            "spark.extraListeners": ",".join(listeners),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": spark_url(self.log_dir, always=True) if self.log_dir else "",
            "spark.iqcar.rules": spark_url(self.rules),
        }
        for name, value in found.items():
            unsafe = re.search(r"[^!-~]", value)
            if unsafe:
                raise UsageError(
                    f"{name} cannot hold {unsafe.group()!r}", value, "write it as %20 and the like"
                )
        return {name: value for name, value in found.items() if value}

    def submit_flags(self) -> list[str]:
        """Return command-line arguments for spark-submit, spark-shell and pyspark."""
        settings = self.settings()
        words = ["--jars", settings.pop("spark.jars")]
        for name, value in settings.items():
            words += ["--conf", f"{name}={value}"]
        return words

    def flags(self) -> str:
        """Return one line for ``$(iqcar conf)``, which the shell splits at blanks; no quoting.

        Raises UsageError if a value has characters that the shell would expand.
        """
        words = self.submit_flags()
        for word in words:
            unsafe = re.search(r"[^A-Za-z0-9_./:@%+=~,-]", word)
            if unsafe:
                raise UsageError(
                    f"{unsafe.group()!r} does not survive the shell's $(...)",
                    word,
                    "use --properties, --pyspark or --shell",
                )
        return " ".join(words)

    def properties(self) -> str:
        """Return lines for spark-defaults.conf, or for ``spark-submit --properties-file``."""
        settings = self.settings()
        width = max(map(len, settings))
        return "\n".join(f"{name:<{width}} {value}" for name, value in settings.items())

    def shell(self) -> str:
        """Return a line that makes ``python job.py`` attach iqcar: ``eval "$(...)"`` it."""
        words = " ".join(map(shlex.quote, [*self.submit_flags(), "pyspark-shell"]))
        return f"export PYSPARK_SUBMIT_ARGS={shlex.quote(words)}"

    def pyspark(self) -> str:
        """Return Python code that starts a session with iqcar attached."""
        lines = ["from pyspark.sql import SparkSession", ""]
        lines += ["spark = (", "    SparkSession.builder"]
        for name, value in self.settings().items():
            lines.append(f"    .config({json.dumps(name)}, {json.dumps(value)})")
        return "\n".join([*lines, "    .getOrCreate()", ")"])


def configured_log_dir() -> tuple[str, str] | None:
    """Return where Spark's settings here say that event logs are, and which file says it."""
    home, folder = os.environ.get("SPARK_HOME"), os.environ.get("SPARK_CONF_DIR")
    if not (folder or home):
        return None
    file = (Path(folder) if folder else Path(home or "", "conf")) / "spark-defaults.conf"
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        key = line.partition("=")[0].split()[:1]
        if key == ["spark.eventLog.dir"] and (value := line.strip()[len(key[0]) :].strip(" \t=")):
            return value, str(file)
    return None


def is_url(path: str) -> bool:
    """Tell whether a path begins with a scheme."""
    return bool(_URL.match(path))


def spark_url(path: str, always: bool = False) -> str:
    """Return a local path as Spark reads it: absolute, and as a file URL where necessary.

    URLs and the empty string are returned unchanged.
    """
    if not path or is_url(path):
        return path
    absolute = str(Path(path).absolute())
    if not always and not _UNSAFE.search(absolute):
        return absolute
    return "file://" + quote(absolute, safe="/")


def _jar_url(jar: str) -> str:
    unsafe = None if is_url(jar) else _LISTED.search(str(Path(jar).absolute()))
    if unsafe:
        raise UsageError(
            f"Spark loads no jar with {unsafe.group()!r} in its path",
            jar,
            "copy it elsewhere and name the copy with --jar",
        )
    return spark_url(jar)


JAR = "iqcar-listener.jar"
"""File name of the jar, in the wheel and in the build."""


def listener_jar(package: Path | None = None) -> Path:
    """Return the path of the jar in this installation, else of the one built in the repository.

    package: the folder of the iqcar package; by default the running one.

    Raises IqcarError if there is no jar: the package was built without Maven, and the jar was not
    built since.
    """
    package = package or Path(__file__).resolve().parents[2]
    repository = package.parents[1]
    for jar in (package / "data" / JAR, repository / "listener" / "target" / JAR):
        if jar.is_file():
            return jar
    if (repository / "listener" / "pom.xml").is_file():
        advice = f"run {repository / 'scripts' / 'build_listener'} (it needs Maven and a JDK 17)"
    else:
        advice = "install iqcar where mvn and a JDK 17 are on PATH, or name a jar with --jar"
    raise IqcarError(f"this installation has no {JAR}", "", advice)


SCRIPT = "iqcar_sampler.py"


def script_path() -> Path:
    """Return the path of the sampler: in the installed package, else in the repository.

    Raises IqcarError if the installation is incomplete.
    """
    package = Path(__file__).resolve().parents[2]
    resources = package.parents[1] / "listener" / "src" / "main" / "resources"
    for path in (package / "data" / SCRIPT, resources / SCRIPT):
        if path.is_file():
            return path
    raise IqcarError(f"this installation has no {SCRIPT}", "", "install iqcar again")


class _SourceAlone(SourceFileLoader):
    """Keeps no compiled file: in the repository it would lie among the sources of the jar."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Write nothing."""


def load() -> ModuleType:
    """Import the sampler.

    Raises IqcarError if psutil is not installed, or the system cannot be sampled.
    """
    loader = _SourceAlone("iqcar_sampler", str(script_path()))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    if spec is None:
        raise IqcarError(f"cannot import {SCRIPT}", str(script_path()))
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    if module.MISSING:
        raise IqcarError(module.MISSING, "", "pip install psutil (Windows cannot be sampled)")
    return module


def sample_host(
    write: Callable[[str], object],
    *,
    period_s: float = 1.0,
    for_s: float = float("inf"),
    host: str = "",
) -> None:
    """Sample this host until SIGINT, SIGTERM or the end of ``for_s``.

    write: takes one line of JSON with its newline; may raise BrokenPipeError, which ends sampling.
    period_s, for_s: seconds between samples, and total seconds.
    host: the host's name as Spark reports it; by default its own host name.
    """
    module: Any = load()
    sampler = module.Sampler(name=host or socket.gethostname())
    module.run(sampler, write, period_s, for_s)
