"""Follows one application for the server: a line of JSON on standard output per window."""

from __future__ import annotations

import os
import sys
import time

import msgspec

from iqcar.apps.serve.followers import FollowRequest
from iqcar.apps.serve.process_limits import bound_memory
from iqcar.base.files.json_text import json_bytes
from iqcar.base.workers import at_end_of
from iqcar.diagnosis import Settings
from iqcar.enums import QueryBy
from iqcar.errors import IqcarError, explain_bug
from iqcar.live.watch import Watch
from iqcar.show.json.live import window_to_json


def main() -> None:
    """Follow until the application ends or standard input is closed; errors are a line, too."""
    line = sys.stdin.buffer.readline()
    at_end_of(0, lambda: os._exit(0))  # the server closed it, or has died
    try:
        _follow(msgspec.json.decode(line, type=FollowRequest))
    except IqcarError as error:
        _say({"problem": str(error)})
    except Exception as error:
        _say({"problem": f"following it {explain_bug(error)}"})


def _follow(wanted: FollowRequest) -> None:
    bound_memory()
    settings = Settings(
        QueryBy(str(wanted.settings["query_by"])),
        bool(wanted.settings["critical_path"]),
        int(wanted.settings["top"]),
    )
    watch = Watch(wanted.path, settings, wanted.window_ms, wanted.within)
    while True:
        watch.read()
        if (window := watch.window()) is not None:
            _write(window_to_json(window, watch.state))
        if watch.over:
            return
        time.sleep(wanted.every_ms / 1e3)


def _say(what: dict[str, str]) -> None:
    _write(json_bytes(what) + b"\n")


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
