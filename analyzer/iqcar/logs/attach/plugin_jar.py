"""Find the Spark plugin's jar: in the installed package, else built in the repository."""

from __future__ import annotations

from pathlib import Path

from iqcar.errors import IqcarError

JAR = "iqcar-listener.jar"
"""File name of the jar, in the wheel and in the build."""


def listener_jar(package: Path | None = None) -> Path:
    """Return the path of the jar in this installation, else of the one built in the repository.

    Parameters
    ----------
    package : the folder of the iqcar package; by default the running one.

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
