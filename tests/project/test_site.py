"""The documentation as a site: every page has a place, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import site
from tests.conftest import REPO


@pytest.mark.slow
def test_the_site_builds_with_no_broken_link(tmp_path: Path) -> None:
    site.build(tmp_path / "site")
    built = {page.stem for page in (tmp_path / "site").rglob("*.html")}
    assert {page.stem for page in (REPO / "docs").rglob("*.md")} - {"README"} <= built
    tour = (tmp_path / "site" / "tour.html").read_text("utf-8")
    assert "/blob/main/examples/diagnose.ipynb" in tour, "files outside of docs are elsewhere"


def test_every_page_has_a_place_in_the_navigation() -> None:
    named = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", (REPO / "mkdocs.yml").read_text("utf-8"), re.M)
    pages = (page.relative_to(REPO / "docs").as_posix() for page in (REPO / "docs").rglob("*.md"))
    assert sorted(named) == sorted(pages)


def test_a_link_to_a_missing_page_place_or_picture_is_found(tmp_path: Path) -> None:
    links = ("b.html", "b.html#here", "b.html#gone", "#gone", "c.html", "https://example.com/x")
    page = "".join(f'<a href="{link}">x</a>' for link in links) + '<img src="d.svg">'
    (tmp_path / "a.html").write_text(page, "utf-8")
    (tmp_path / "b.html").write_text('<h1 id="here">B</h1>', "utf-8")
    assert site.broken(tmp_path) == [
        f"a.html: {link}" for link in ("#gone", "b.html#gone", "c.html", "d.svg")
    ]
    assert site.loaded_from_elsewhere(tmp_path) == []
    (tmp_path / "b.html").write_text('<script src="https://example.com/x.js"></script>', "utf-8")
    assert site.loaded_from_elsewhere(tmp_path) == ["https://example.com/x.js"]
