"""A store that Spark reads by WebHDFS, which gives all who read at once only so much together."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PIECE = 1 << 15
"""Bytes that are sent at once, before it is looked again who else reads."""
NAMES, CONTENT = "/webhdfs/v1", "/content"
NO_FILE = {"RemoteException": {"exception": "FileNotFoundException", "message": "no such file"}}


class LimitedStore(ThreadingHTTPServer):
    """The files in a folder.

    each: bytes per second that one reader gets at most; together: and all readers.
    """

    daemon_threads = True

    def __init__(self, folder: Path, each: float, together: float) -> None:
        super().__init__(("127.0.0.1", 0), _Reader)
        self.folder, self.each, self.together = folder, each, together
        self.readers, self.lock = 0, threading.Lock()
        self.address = f"webhdfs://127.0.0.1:{self.server_address[1]}"
        self.shared_s: dict[str, float] = defaultdict(float)
        """Per folder that is read, the seconds that its readers waited because others read."""

    def reads(self, change: int) -> None:
        """Somebody begins to read, or ends."""
        with self.lock:
            self.readers += change

    def seconds(self, read: str, piece: int) -> float:
        """Seconds that a piece of so many bytes of a folder takes now."""
        shared = max(self.readers * piece / self.together - piece / self.each, 0.0)
        with self.lock:
            self.shared_s[read] += shared
        return piece / self.each + shared


class _Reader(BaseHTTPRequestHandler):
    server: LimitedStore

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name.lower(): values[0] for name, values in parse_qs(url.query).items()}
        name = url.path.removeprefix(NAMES).removeprefix(CONTENT)
        path, names = self.server.folder / name.lstrip("/"), url.path.startswith(NAMES)
        if asked["op"] == "GETHOMEDIRECTORY":
            self._say({"Path": "/"})
        elif not path.exists():
            self._say(NO_FILE, 404)
        elif asked["op"] == "OPEN" and names:
            host, port = self.server.server_address[:2]
            self.send_response(307)
            self.send_header("Location", f"http://{host!s}:{port}{CONTENT}{name}?{url.query}")
            self.end_headers()
        elif asked["op"] == "OPEN":
            self._send(path, int(asked.get("offset", 0)), int(asked.get("length", 1 << 60)))
        elif asked["op"] == "GETFILESTATUS":
            self._say({"FileStatus": _status(path, "")})
        elif asked["op"] == "LISTSTATUS":
            every = [_status(file, file.name) for file in sorted(path.iterdir())]
            self._say({"FileStatuses": {"FileStatus": every}})
        else:
            self._say({"BlockLocations": {"BlockLocation": []}})

    def _send(self, path: Path, offset: int, length: int) -> None:
        left = min(path.stat().st_size - offset, length)
        self.send_response(200)
        self.send_header("Content-Length", str(left))
        self.end_headers()
        self.server.reads(1)
        due = time.monotonic()
        try:
            with path.open("rb") as file:
                file.seek(offset)
                while piece := file.read(min(PIECE, left)):
                    due += self.server.seconds(path.parent.name, len(piece))
                    time.sleep(max(due - time.monotonic(), 0.0))
                    self.wfile.write(piece)
                    left -= len(piece)
        except ConnectionError:
            self.close_connection = True  # who read has enough
        finally:
            self.server.reads(-1)

    def _say(self, answer: object, code: int = 200) -> None:
        # No type: Hadoop's client in Spark lacks the class that would parse it.
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        pass


def _status(path: Path, name: str) -> dict[str, object]:
    return {
        "pathSuffix": name, "type": "DIRECTORY" if path.is_dir() else "FILE",
        "length": 0 if path.is_dir() else path.stat().st_size, "owner": "", "group": "",
        "permission": "644", "accessTime": 0, "modificationTime": 0, "blockSize": 1 << 30,
        "replication": 1,
    }  # fmt: skip


@contextmanager
def limited_store(folder: Path, each: float, together: float) -> Iterator[LimitedStore]:
    """Run a store."""
    server = LimitedStore(folder, each, together)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
