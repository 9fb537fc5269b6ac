"""Build a release and try it where nothing else of iqcar is: what `scripts/release` runs."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

REPO = Path(__file__).resolve().parent.parent
JAR = "iqcar/data/iqcar-listener.jar"
POM = "{http://maven.apache.org/POM/4.0.0}"
ARTIFACTS = ("{}.pom", "{}.jar", "{}-sources.jar", "{}-javadoc.jar")
"""What Maven Central wants of a library, each with a signature that only its owner can make."""

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A build ends before the JVM's second compiler would pay: half of its CPU time is saved."""

LOG = "examples/monday/app-monday-1.zstd"
COMMANDS = (
    "queries examples/monday",
    "analyze examples/monday --rules rules.json",
    "report examples/monday --out report.html",
    "blame examples/monday --target daily_sales",
    "compare examples/monday examples/tuesday",
    "whatif examples/monday/app-monday-1.zstd --remove etl_heavy",
    "live examples/monday/app-monday-1.zstd --once",
    "stragglers examples/monday",
    "topics examples",
    "rules compile rules.json",
)
"""The README's commands that need nothing but the wheel."""

LEFT = """\
Left to the owner, in this order:
  1. confirm the home page, the repository and the developers in listener/pom.xml
  2. git tag -s v{version} && git push origin v{version}
  3. twine upload {out}/iqcar-{version}.tar.gz; pip compiles the kernels of it. The wheel is of
     this machine's Python and system
  4. sign each file below {out}/maven (gpg --armor --detach-sign FILE), zip that folder, and upload
     the zip to Maven Central as org.iqcar:iqcar-listener:{version}
"""


def run(*command: object, cwd: Path | None = None) -> str:
    """Run a command outside of this checkout's Python path; return what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment.setdefault("MAVEN_OPTS", QUICK_JVM)
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        words = " ".join(map(str, command))
        sys.exit(f"release: {words} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def say(sentence: str) -> None:
    """Tell at once what was found to be right."""
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


def pom_of(repo: Path) -> ElementTree.ElementTree:
    """Return the plugin's pom; its tags have the prefix `POM`."""
    return ElementTree.parse(repo / "listener/pom.xml")


def agreed_version(repo: Path, *, released: bool) -> str:
    """Return the version that version.py, the pom and the changelog agree on.

    `released` refuses a changelog that begins with changes of no version yet.
    """
    found = re.search(
        r'__version__ = "(.+)"', (repo / "analyzer/iqcar/version.py").read_text("utf-8")
    )
    version = found[1] if found else "none"
    pom = pom_of(repo).findtext(f"{POM}version")
    if pom != version.partition(".dev")[0]:
        sys.exit(f"release: version.py says {version}, listener/pom.xml says {pom}")
    headings = re.findall(r"^## (\S+)", (repo / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if headings[0] != version and (released or headings[0] != "Unreleased"):
        sys.exit(f"release: version.py says {version}, CHANGELOG.md begins with {headings[0]}")
    return version


def build(sources: Path, out: Path, *targets: str) -> list[Path]:
    """Build what is to be uploaded: wheel, sdist, or both; return the files, sdist first."""
    words = [word for target in targets for word in ("-t", target)]
    run(sys.executable, "-m", "hatchling", "build", "-d", out, *words, cwd=sources)
    return sorted(out.iterdir(), key=lambda file: file.suffix)


def unpack(sdist: Path, folder: Path) -> Path:
    """Unpack the sdist; return its one folder."""
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)
    (sources,) = folder.iterdir()
    return sources


def same_files(one: Path, other: Path) -> None:
    """Refuse two wheels that differ in a file's name or content."""
    with zipfile.ZipFile(one) as left, zipfile.ZipFile(other) as right:
        sums = [{info.filename: info.CRC for info in z.infolist()} for z in (left, right)]
    if differ := sorted(name for name, _ in sums[0].items() ^ sums[1].items()):
        sys.exit(f"release: the wheel from the sdist differs in {', '.join(differ)}")


def try_wheel(wheel: Path, folder: Path, version: str, *, every_command: bool) -> None:
    """Install the wheel with what it declares to need, and nothing else; run its commands."""
    home = folder / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", home)
    pip = (sys.executable, "-m", "pip", "--python", home / "bin/python", "install", "--quiet")
    run(*pip, "--no-compile", "--disable-pip-version-check", wheel)
    iqcar = home / "bin/iqcar"
    if (said := run(iqcar, "--version", cwd=folder).split()[-1]) != version:
        sys.exit(f"release: the installed iqcar says it is {said}, not {version}")
    shutil.copytree(REPO / "examples", folder / "examples")
    result = json.loads(run(iqcar, "analyze", LOG, "--json", "-", cwd=folder))
    if not result["queries"]:
        sys.exit("release: the installed iqcar found no query in the examples")
    for words in COMMANDS if every_command else ():
        run(iqcar, *words.split(), cwd=folder)
        say(f"it runs iqcar {words}")
    conf = run(iqcar, "conf", cwd=folder)
    with zipfile.ZipFile(wheel) as archive:
        if JAR not in archive.namelist():
            sys.exit("release: the wheel has no Spark plugin: Maven could not build it")
    if str(home) not in conf or "iqcar-listener.jar" not in conf:
        sys.exit(f"release: iqcar conf does not name the jar that was installed: {conf}")


def build_artifacts(sources: Path, out: Path, version: str) -> None:
    """Build what Maven Central wants, from the sdist, into a repository in `out`."""
    repository = out / "maven"
    maven = ("mvn", "-q", "-B", "-Prelease", "deploy", "-Dmaven.test.skip=true", "-Dmdep.skip=true")
    run(*maven, f"-DaltDeploymentRepository=out::file://{repository}", cwd=sources / "listener")
    for listing in repository.rglob("maven-metadata.xml*"):  # Maven Central makes its own
        listing.unlink()
    folder = repository / "org/iqcar/iqcar-listener" / version
    for artifact in ARTIFACTS:
        name = artifact.format(f"iqcar-listener-{version}")
        if not (folder / name).is_file():
            sys.exit(f"release: Maven built no {name}")


def release(out: Path, *, dry_run: bool, maven: bool = True, every_command: bool = False) -> None:
    """Build all files into `out`, check that they agree, and try them."""
    version = agreed_version(REPO, released=not dry_run)
    say(f"version.py and listener/pom.xml agree on {version}")
    with tempfile.TemporaryDirectory(prefix="iqcar-release-") as scratch:
        folder = Path(scratch)
        sdist, wheel = build(REPO, out, "sdist", "wheel")
        say(f"built {wheel.name} and {sdist.name}")
        sources = unpack(sdist, folder / "sources")
        (again,) = build(sources, folder / "again", "wheel")
        same_files(wheel, again)
        say("the sdist makes the same wheel")
        with ThreadPoolExecutor() as meanwhile:  # one downloads while the other compiles
            artifacts = meanwhile.submit(build_artifacts, sources, out, version) if maven else None
            try_wheel(wheel, folder, version, every_command=every_command)
            say("the wheel runs in an empty environment, with the Spark plugin inside")
            if artifacts is not None:
                artifacts.result()
                say(f"org.iqcar:iqcar-listener:{version} has its pom, jar, sources and javadoc")
    if not dry_run:
        say(LEFT.format(version=version, out=os.path.relpath(out)).rstrip())


def main(arguments: list[str]) -> None:
    """Release into dist/, or try that and leave nothing behind."""
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="leave nothing behind")
    parser.add_argument("--no-maven", action="store_true", help="without the Maven artifacts")
    parser.add_argument("--all-commands", action="store_true", help="run more of the README")
    options = parser.parse_args(arguments)
    more = {"maven": not options.no_maven, "every_command": options.all_commands}
    if options.dry_run:
        with tempfile.TemporaryDirectory(prefix="iqcar-dist-") as out:
            release(Path(out), dry_run=True, **more)
    else:
        out = REPO / "dist"
        shutil.rmtree(out, ignore_errors=True)
        release(out, dry_run=False, **more)


if __name__ == "__main__":
    main(sys.argv[1:])
