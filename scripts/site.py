"""Build the documentation as a site: what `scripts/site` runs.

Links out of docs/ lead to the files themselves in a checkout. A site has no such files: there they
lead to the project's repository, and every other link is checked in the pages as they were built.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from scripts.release import POM, pom_of

REPO = Path(__file__).resolve().parent.parent
NO_PAGES = ("404.html", "sample-report.html")
"""What has links of its own kind: a report's choose what it shows."""
OUT_OF_DOCS = re.compile(r"\]\(\.\./([^)]+)\)")


class Links(HTMLParser):
    """What a page links to or loads, and the places in it that can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links and places of one tag."""
        for name, value in attrs:
            if (
                name in ("href", "src")
                and value
                and (tag, "canonical") != (tag, dict(attrs).get("rel"))
            ):
                self.targets.append(value)
            if name in ("id", "name") and value:
                self.places.add(value)


def _pages(site: Path) -> list[Path]:
    return sorted(page for page in site.rglob("*.html") if page.name not in NO_PAGES)


def broken(site: Path) -> list[str]:
    """Every link of a built site that leads to no file, or to no place in a page; one line each."""
    pages = {page: Links(page) for page in _pages(site)}
    found = []
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = page
            if parts.path:
                file = Path(os.path.normpath(page.parent / unquote(parts.path)))
            file = file / "index.html" if file.is_dir() else file
            place = unquote(parts.fragment)
            if not file.is_file() or (place and file in pages and place not in pages[file].places):
                found.append(f"{page.relative_to(site)}: {target}")
    return sorted(set(found))


def loaded_from_elsewhere(site: Path) -> list[str]:
    """What pages would load from other hosts."""
    tags = re.compile(r"<(?:script|img|link)[^>]+(?:src|href)=\"?(https?:[^\" >]+)[^>]*>")
    pages = [page.read_text("utf-8") for page in _pages(site)]
    return sorted({m[1] for page in pages for m in tags.finditer(page) if "canonical" not in m[0]})


def build(site: Path) -> None:
    """Build the site into a folder; stop with what was wrong."""
    home = pom_of(REPO).findtext(f"{POM}scm/{POM}url")
    with tempfile.TemporaryDirectory(prefix="iqcar-site-") as scratch:
        folder = Path(scratch)
        shutil.copytree(REPO / "docs", folder / "docs", ignore=shutil.ignore_patterns("*.json"))
        shutil.copy(REPO / "mkdocs.yml", folder)
        for page in (folder / "docs").glob("*.md"):
            text = OUT_OF_DOCS.sub(rf"]({home}/blob/main/\1)", page.read_text("utf-8"))
            page.write_text(text, "utf-8")
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"site: {done.stdout}{done.stderr}")
        if wrong := broken(folder / "site") + loaded_from_elsewhere(folder / "site"):
            sys.exit("site: these links lead nowhere or elsewhere\n" + "\n".join(wrong))
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(folder / "site", site)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="scripts/site", description=__doc__)
    parser.add_argument("--out", type=Path, default=REPO / "build" / "site")
    options = parser.parse_args()
    build(options.out)
    sys.stdout.write(f"Wrote {options.out}/index.html\n")
