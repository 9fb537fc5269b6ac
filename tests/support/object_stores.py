"""Servers that speak like remote stores, on this machine: S3, Google's, Azure's, Hadoop's."""

from __future__ import annotations

import logging
import math
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.support.free_port import free_port
from tests.support.hadoop_jars import hadoop_class_path

REPO = Path(__file__).resolve().parents[2]
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The key of Azurite's one account, which is the same everywhere."""
PAGE = 1000
"""Objects in an answer of S3."""


@contextmanager
def s3_server(set_env: pytest.MonkeyPatch) -> Iterator[str]:
    """Run moto, and let s3fs of this process find it; yields its address."""
    pytest.importorskip("s3fs")
    server_of = pytest.importorskip("moto.server").ThreadedMotoServer
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_of(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    try:
        for_s3(set_env, address)
        yield address
    finally:
        ask_who_it_is(address, after=math.inf)  # all servers of a process share this
        server.stop()
        forget("s3")


@contextmanager
def slow_s3(delay_s: float, breaking: str = "") -> Iterator[str]:
    """Run moto; the content of an object comes after a delay. Yields its address.

    breaking: a bucket whose first answer with the content of an object breaks off in its middle.
    """
    moto = pytest.importorskip("moto.server")
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    answers = moto.DomainDispatcherApplication(moto.create_backend_app)

    broken: set[str] = set()

    def slowly(environ: dict[str, str], start: object) -> object:
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] == "GET" and path.count("/") > 1:
            time.sleep(delay_s)
            if breaking and path.startswith(f"/{breaking}/") and path not in broken:
                broken.add(path)
                whole = b"".join(answers(environ, start))
                return [whole[: len(whole) // 2]]
        return answers(environ, start)

    server = make_server("127.0.0.1", 0, slowly, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()


def for_s3(set_env: pytest.MonkeyPatch, address: str, key: str = "somebody") -> None:
    """Name a server and who asks it; an empty key is nobody."""
    forget("s3")
    set_env.setenv("AWS_ENDPOINT_URL", address)
    set_env.setenv("AWS_DEFAULT_REGION", "us-east-1")
    set_env.setenv("AWS_EC2_METADATA_DISABLED", "true")
    set_env.setenv("AWS_CONFIG_FILE", os.devnull)
    set_env.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        if key:
            set_env.setenv(name, key)
        else:
            set_env.delenv(name, raising=False)


def ask_who_it_is(address: str, after: float = 0) -> None:
    """Let an S3 server check, after some more questions, who asks; it knows nobody."""
    httpx.post(f"{address}/moto-api/reset-auth", content=str(after).encode()).raise_for_status()


def forget(protocol: str) -> None:
    """Forget connections, which hold credentials and listings."""
    import fsspec

    fsspec.get_filesystem_class(protocol).clear_instance_cache()


@contextmanager
def google_server(set_env: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the emulator of Google's store, and let gcsfs of this process find it."""
    pytest.importorskip("gcsfs")
    create_server = pytest.importorskip("gcp_storage_emulator.server").create_server
    port = free_port()
    server = create_server("127.0.0.1", port, in_memory=True)
    server.start()
    try:
        set_env.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
        forget("gs")
        yield
    finally:
        server.stop()
        forget("gs")


@contextmanager
def azure_server(set_env: pytest.MonkeyPatch, folder: Path) -> Iterator[str]:
    """Run Azurite, and let adlfs of this process find it; yields its connection string."""
    pytest.importorskip("adlfs")
    installed = REPO / "build" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    command = shutil.which("azurite-blob") or (installed.is_file() and str(installed))
    if not command:
        pytest.skip("needs Azurite: npm install --prefix build/azurite azurite")
    port = free_port()
    words = [
        *(command, "--silent", "--inMemoryPersistence", "--skipApiVersionCheck"),
        *("--blobPort", str(port), "--disableTelemetry"),
    ]
    server = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        text = azure_connection(port, AZURE_KEY)
        set_env.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
        forget("abfs")
        yield text
    finally:
        server.terminate()
        server.wait()
        forget("abfs")


def azure_connection(port: int, key: str) -> str:
    return (
        f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={key};"
        f"BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;"
    )


@contextmanager
def hadoop_cluster(folder: Path) -> Iterator[str]:
    """Run HDFS with one data node in one JVM; yields its address for WebHDFS."""
    source = Path(__file__).with_name("MiniHdfs.java")
    words = ["java", "-cp", hadoop_class_path(), str(source), str(folder / "hdfs")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(words, text=True, cwd=folder, **pipes)  # type: ignore[call-overload]
    try:
        said = (line.partition("WebHDFS at ")[2].strip() for line in server.stdout)
        yield f"webhdfs://{next(address for address in said if address)}"
    finally:
        server.communicate("\n")  # a line ends it
        forget("webhdfs")


class _Listing(BaseHTTPRequestHandler):
    """Answers like an S3 bucket of very many objects, named by their number."""

    protocol_version = "HTTP/1.1"
    names: tuple[str, ...] = ()

    def do_HEAD(self) -> None:
        self._answer(200 if urlsplit(self.path).path.count("/") == 1 else 404, b"")

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        first = int(asked.get("continuation-token", ["0"])[0])
        most = int(asked.get("max-keys", [str(PAGE)])[0])
        names = self.names[first : first + most]
        last = first + most >= len(self.names)
        token = "" if last else f"<NextContinuationToken>{first + most}</NextContinuationToken>"
        objects = "".join(
            f"<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>x</ETag><Size>1000</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for name in names
        )
        body = (
            '<?xml version="1.0"?><ListBucketResult>'
            f"<Name>logs</Name><IsTruncated>{str(not last).lower()}</IsTruncated>{token}{objects}"
            f"<KeyCount>{len(names)}</KeyCount></ListBucketResult>"
        )
        self.server.asked += 1  # type: ignore[attr-defined]
        self._answer(200, body.encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def listing_server(names: tuple[str, ...]) -> Iterator[ThreadingHTTPServer]:
    """Serve the listing of a bucket with these objects; ``asked`` counts the pages."""
    handler = type("Listing", (_Listing,), {"names": names})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.asked = 0  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
