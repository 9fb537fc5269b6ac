"""A real browser for pages: Debian's Chromium, headless, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import REPO

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCREENSHOTS = Path(os.environ.get("IQCAR_SCREENSHOTS", REPO / "build" / "screenshots"))
"""Where pictures of pages are kept; the folder is not part of the project."""
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
"""Chromium as root in a container, without connections of its own."""


def chromium() -> str | None:
    """Path of the browser, or None where there is none; without its windows it takes less time."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    return next(filter(None, map(shutil.which, names)), None)


needs_chromium = pytest.mark.skipif(chromium() is None, reason="Chromium is not installed")


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start the browser; it ends with the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        try:
            yield browser
        finally:
            browser.close()


PATIENCE_MS = 180_000
"""How long a page may take to load where several browsers and Sparks share a processor."""


class Watched:
    """A page with what went wrong on it and what it asked the network for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.set_default_navigation_timeout(PATIENCE_MS)
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "console",
            lambda said: (
                self.errors.append(said.text) if said.type in ("error", "warning") else None
            ),
        )
        page.on("request", lambda request: self.requests.append(request.url))

    def screenshot(self, name: str) -> Path:
        """Keep a picture of the whole page."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.page.screenshot(path=path, full_page=True)
        return path


def serious(page: Page) -> list[str]:
    """What axe-core finds serious or critical, each with its first elements."""
    return violations(page, ("serious", "critical"))


OF_THE_LOOK = ("color-contrast", "target-size", "link-in-text-block", "scrollable-region-focusable")
"""The rules of axe-core that depend on colours and sizes; others read the document alone."""


def violations(page: Page, impacts: tuple[str, ...] = (), rules: tuple[str, ...] = ()) -> list[str]:
    """What axe-core finds, of some impacts and rules or of all, each with its first elements.

    It enters as Playwright itself does: a page's policy lets no other script in.
    """
    from axe_playwright_python.sync_playwright import Axe

    told = {"resultTypes": ["violations"]}
    only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    return [
        f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes']][:4]}"
        for one in Axe().run(page, options={**told, **only}).response["violations"]
        if not impacts or one["impact"] in impacts
    ]


def wider_than_the_screen(page: Page) -> list[str]:
    """Elements that reach beyond the right edge, and are in nothing that scrolls by itself."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('body *')].filter((one) => {
          const box = one.getBoundingClientRect();
          if (box.width === 0 || box.right <= innerWidth + 1) return false;
          for (let at = one; at; at = at.parentElement) {
            const style = getComputedStyle(at);
            if (style.clipPath !== 'none') return false;
            if (at !== one && style.overflowX !== 'visible') return false;
          }
          return true;
        }).map((one) => `${one.tagName} ${one.id} ${one.className}`)"""
    )
    return found


def texts_in_the_way(page: Page) -> list[str]:
    """Texts of pictures that lie over another, or leave their picture; slanted ones may touch."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('svg.main-svg, svg.drawing')].flatMap((svg) => {
          const edge = svg.getBoundingClientRect();
          const slanted = (one) => /rotate[(](?!0[,)])/.test(one.getAttribute('transform') ?? '');
          const all = [...svg.querySelectorAll('text')].filter((one) => !slanted(one))
            .map((one) => [one.textContent.trim(), one.getBoundingClientRect()])
            .filter(([text, at]) => text && at.width > 0);
          const over = (one, other) =>
            Math.min(one.right, other.right) - Math.max(one.left, other.left) > 2
            && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 4;
          return all.flatMap(([text, at], i) => [
            ...(at.left < edge.left - 2 || at.right > edge.right + 2 ? [`${text} is cut`] : []),
            ...all.slice(i + 1).filter(([, other]) => over(at, other))
              .map(([other]) => `${text} over ${other}`),
          ]);
        })"""
    )
    return found
