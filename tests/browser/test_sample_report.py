"""The sample report that the README links to: as a report is today, and it works from a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iqcar.pipeline import diagnose, read
from iqcar.say.verdict import find_verdict
from scripts import pictures
from tests.conftest import REPO
from tests.support.browsing import Watched, needs_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_chromium


def test_the_sample_report_says_what_a_report_says_today(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPO)  # texts name the log as it was given
    page = browser.new_page()
    watched = Watched(page)
    page.goto(pictures.SAMPLE.as_uri())
    said = page.locator("#verdict").inner_text().replace("\N{NO-BREAK SPACE}", " ")
    verdict = find_verdict(diagnose(read([pictures.LOG])))
    texts = [text for one in verdict.findings for text in (one.saving, one.sentence, one.action)]
    for text in [verdict.headline, *texts]:
        assert text in said, "run scripts/pictures"
    page.locator("#timeline .iqt-lanes").wait_for()
    assert watched.errors == []
    assert [url for url in watched.requests if not url.startswith(("file:", "data:"))] == []
