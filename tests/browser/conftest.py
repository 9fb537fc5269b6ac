"""One browser for all tests of pages; what a test opened is closed when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import iqcar
from tests.support.browsing import open_browser
from tests.support.crowded_log import crowded_log
from tests.support.shown_page import write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def opened_browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def browser(opened_browser: Browser) -> Iterator[Browser]:
    """The browser; pages that stay open would go on drawing beside the next test."""
    before = opened_browser.contexts
    yield opened_browser
    for context in opened_browser.contexts:
        if context not in before:
            context.close()


@pytest.fixture(scope="session")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> iqcar.Diagnosis:
    """A diagnosis in which there is something to see in every section."""
    path = tmp_path_factory.mktemp("crowded") / "app-1"
    return iqcar.diagnose(iqcar.read(crowded_log().write(path)), topics=True)


@pytest.fixture(scope="session")
def file(crowded: iqcar.Diagnosis, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its report."""
    return write_page(crowded, tmp_path_factory.mktemp("page") / "report.html")
