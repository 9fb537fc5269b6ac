"""Where the Spark plugin's jar is: in the installed package, or built in the repository."""

from __future__ import annotations

from pathlib import Path

from iqcar.errors import IqcarError

JAR = "iqcar-listener.jar"
"""File name of the jar, in the wheel and in the build."""


def listener_jar(package: Path | None = None) -> Path:
    """Return the jar that this installation carries, else the one built in the repository.

    Parameters
    ----------
    package : Path, optional
        The folder of the iqcar package; by default the running one.

    Raises
    ------
    IqcarError
        If there is no jar: the package was built where there was no Maven, and nobody built
        the jar since.
    """
    package = package or Path(__file__).resolve().parents[1]
    repository = package.parents[1]
    for jar in (package / "data" / JAR, repository / "listener" / "target" / JAR):
        if jar.is_file():
            return jar
    if (repository / "listener" / "pom.xml").is_file():
        advice = f"run {repository / 'scripts' / 'build_listener'} (it needs Maven and a JDK 17)"
    else:
        advice = "install iqcar where mvn and a JDK 17 are on PATH, or name a jar with --jar"
    raise IqcarError(f"this installation has no {JAR}", "", advice)
