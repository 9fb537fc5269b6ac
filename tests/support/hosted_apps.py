"""A server that answers as a History Server does, about applications that a test makes up."""

from __future__ import annotations

import io
import json
import time
import zipfile
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

import zstandard

from tests.support.log_places import APP, LOG
from tests.support.web_server import send

DAY_MS = 86_400_000
NOW_MS = int(time.time() * 1e3)


def listed(app: str, *attempts: dict[str, Any], name: str = "etl") -> dict[str, Any]:
    return {"id": app, "name": name, "attempts": list(attempts)}


def attempt(days_ago: int = 0, user: str = "ann", done: bool = True, **more: Any) -> dict[str, Any]:
    start = NOW_MS - days_ago * DAY_MS
    return {
        "startTimeEpoch": start,
        "endTimeEpoch": start + 1000 if done else -1,
        "lastUpdatedEpoch": start + 2000,
        "sparkUser": user,
        "completed": done,
        "appSparkVersion": "4.1.0",
        **more,
    }


def zip_of(**members: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return made.getvalue()


def empty_log(app: str, start_ms: int, attempt: int | None = None) -> str:
    """The log of an application that did nothing, as Spark spells it."""
    number = "" if attempt is None else f',"App Attempt ID":"{attempt}"'
    return "\n".join(
        [
            '{"Event":"SparkListenerLogStart","Spark Version":"4.0.0"}',
            f'{{"Event":"SparkListenerApplicationStart","App Name":"again","App ID":"{app}",'
            f'"Timestamp":{start_ms},"User":"ann"{number}}}',
            f'{{"Event":"SparkListenerApplicationEnd","Timestamp":{start_ms + 5000}}}',
            "",
        ]
    )


class HostedApps:
    """Answers as a History Server does; keeps what it was asked."""

    def __init__(self, *apps: dict[str, Any], zips: dict[str, bytes] | None = None) -> None:
        self.apps, self.zips = apps, zips or {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []

    def __call__(self, to: BaseHTTPRequestHandler) -> None:
        self.asked.append(to.path)
        self.headers.append(dict(to.headers))
        _, _, inner = urlsplit(to.path).path.partition("/api/v1/applications")
        one = [app for app in self.apps if inner == f"/{app['id']}"]
        if inner == "":
            send(to, json.dumps(self.apps).encode())
        elif one:
            send(to, json.dumps(one[0]).encode())
        elif inner in self.zips:
            send(to, self.zips[inner], kind="application/octet-stream", length=-1)
        else:
            send(to, b"unknown app", status=404, kind="text/plain")


TWO = HostedApps(
    listed(APP, attempt(attemptId="2"), attempt(1, attemptId="1", done=False)),
    listed("app-20260101000000-0001", attempt(3, user="bob"), name="report\x1b[31m"),
    zips={
        f"/{APP}/2/logs": zip_of(**{f"{APP}_2": LOG * 3}),
        f"/{APP}/1/logs": zip_of(
            **{
                f"eventlog_v2_{APP}_1/appstatus_{APP}_1.inprogress": b"",
                f"eventlog_v2_{APP}_1/events_1_{APP}_1.zstd": zstandard.compress(LOG * 2),
                f"eventlog_v2_{APP}_1/events_2_{APP}_1": LOG,
            }
        ),
        "/app-20260101000000-0001/logs": zip_of(**{"app-20260101000000-0001": LOG}),
    },
)
