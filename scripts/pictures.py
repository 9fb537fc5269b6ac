"""Draw the README's pictures and write the sample report: what `scripts/pictures` runs."""

from __future__ import annotations

import sys
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING

from iqcar.pipeline import diagnose, read
from iqcar.show.html import render_page
from tests.support.browsing import open_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REPO = Path(__file__).resolve().parent.parent
LOG = "examples/monday/app-monday-1.zstd"
SAMPLE = REPO / "docs" / "sample-report.html"
FOLDER = REPO / "docs" / "pictures"
THEMES = ("light", "dark")
SHOWN = {"verdict": ".findings li", "timeline": ".iqt-lanes"}
"""Sections of the report, by id, and what is shown last of each."""
EXTENT = """(section, last) => {
  const whole = section.getBoundingClientRect()
  const end = section.querySelector(last).getBoundingClientRect().bottom + 8
  return {x: whole.x + scrollX, y: whole.y + scrollY, width: whole.width, height: end - whole.y}
}"""
WIDTH = 1000


def sample_report() -> str:
    """The report of one log of the examples: one file of 1.7 MB, most of it Plotly's program."""
    with chdir(REPO):  # the page names the log as it was given
        return render_page(diagnose(read([LOG])), title="Monday: four queries on four slots")


def draw(browser: Browser, theme: str) -> list[Path]:
    """Draw the sections in one theme; return the files."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": 900}, color_scheme=theme, device_scale_factor=1.5
    )
    page = context.new_page()
    page.goto(SAMPLE.as_uri())
    page.locator("#timeline .iqt-lanes").wait_for()
    page.wait_for_timeout(1_000)
    files = []
    for section, last in SHOWN.items():
        clip = page.locator(f"#{section}").evaluate(EXTENT, last)
        files.append(FOLDER / f"{section}-{theme}.png")
        page.screenshot(path=files[-1], full_page=True, clip=clip)
    context.close()
    return files


def main() -> None:
    """Write the report, then draw it in both themes."""
    FOLDER.mkdir(exist_ok=True)
    SAMPLE.write_text(sample_report(), "utf-8")
    with open_browser() as browser:
        for path in [SAMPLE, *(file for theme in THEMES for file in draw(browser, theme))]:
            size = path.stat().st_size / 1e3
            sys.stdout.write(f"Wrote {path.relative_to(REPO)}: {size:,.0f} kB\n")


if __name__ == "__main__":
    main()
