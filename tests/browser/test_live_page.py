"""A Spark application that runs, followed in a browser and by `iqcar live` at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.browsing import Watched, needs_chromium
from tests.support.served import WAIT_S, served, until

JOBS = Path(__file__).resolve().parents[1] / "support" / "followed_jobs.py"


@contextmanager
def ending(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a process that a failed test would wait for."""
    try:
        yield
    finally:
        process.kill()


@pytest.mark.long
@needs_chromium
@pytest.mark.skipif(shutil.which("java") is None, reason="needs a JDK")
def test_a_running_application_is_seen_until_it_ends(browser, tmp_path: Path) -> None:
    logs, start = tmp_path / "logs", tmp_path / "start"
    logs.mkdir()
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    words = [sys.executable, str(JOBS), str(logs), str(start)]
    # A pipe that nobody reads holds its writer up once it is full.
    errors, said = tmp_path / "errors", tmp_path / "said"
    with (
        errors.open("wb") as complaints,
        said.open("wb") as lines_said,
        subprocess.Popen(words, env=environment, stderr=complaints) as spark,
        ending(spark),
        served(logs, cache=tmp_path / "cache", rescan=0.1) as server,
    ):
        while not (log := next(logs.glob("local-*.inprogress"), None)):
            assert spark.poll() is None, errors.read_text("utf-8")[-2000:]
        follow = [sys.executable, "-m", "iqcar", "live", str(log), "--json", "--every", "500ms"]
        follower = subprocess.Popen(follow, stdout=lines_said, stderr=subprocess.PIPE)
        # The server looks at the folder now and then: the log may not be listed yet.
        until(lambda: [one for one in server.read() if one["name"] == "followed"])
        key = server.key("followed")
        watched = Watched(browser.new_context().new_page())
        page = watched.page
        page.goto(f"{server.base}/applications/{key}")
        page.get_by_role("link", name="Who waits for whom now").click()
        page.locator("#live-state", has_text="Running").wait_for(timeout=WAIT_S * 1000)
        start.write_text("")
        row = page.locator("#live-victims tbody tr", has_text="victim")
        row.first.wait_for(timeout=WAIT_S * 1000)
        page.locator("#live-victims tbody tr", has_text="hog").first.wait_for(timeout=WAIT_S * 1000)
        assert "slots" in page.locator("#live-victims").inner_text()
        watched.screenshot("live")
        page.locator("#live-state", has_text="The application has ended").wait_for(
            timeout=WAIT_S * 1000
        )
        assert watched.errors == []
        assert spark.wait(WAIT_S) == 0
        complained = follower.communicate(timeout=WAIT_S)[1]
    lines = [json.loads(line) for line in said.read_text("utf-8").splitlines()]
    assert follower.returncode == 0 and b"the application has ended" in complained
    assert [lines[0]["state"], lines[-1]["state"]] == ["running", "ended"]
    waited = [line for line in lines if line["now"]["tasks_waiting"]]
    assert waited
    blamed = {
        by["name"]
        for line in lines
        for one in line["victims"]
        if one["name"] == "victim"
        for by in one["blamed"]
    }
    assert "hog" in blamed
