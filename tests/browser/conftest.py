"""One browser for all tests of pages; what a test opened is closed when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.browsing import open_browser

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
