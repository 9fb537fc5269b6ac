"""A Prometheus that runs for as long as a test needs it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.free_port import free_port


class Asked:
    """Answers of a Prometheus to queries."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def __call__(self, query: str) -> list[dict[str, Any]]:
        """The samples that a query finds now; none while Prometheus starts."""
        try:
            answer = self.client.get("/api/v1/query", params={"query": query})
        except httpx.ConnectError:
            return []
        if answer.status_code == 503:
            return []
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
        return found


@contextmanager
def prometheus(folder: Path, scrape_configs: str) -> Iterator[Asked]:
    """Run a Prometheus that scrapes each second; skip the test where there is none."""
    if not shutil.which("prometheus"):
        pytest.skip("needs a Prometheus")
    file = folder / "prometheus.yml"
    file.write_text("global: {scrape_interval: 1s}\n" + scrape_configs.replace("30s", "1s"))
    address = f"127.0.0.1:{free_port()}"
    words = [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={file}", *words], stdout=log, stderr=log
        )
    try:
        with httpx.Client(base_url=f"http://{address}", timeout=60) as client:
            yield Asked(client)
    finally:
        process.terminate()
        process.wait(60)
