"""Who may ask `iqcar serve` what: names, tokens, other sites, sizes, links, what logs contain."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.command import iqcar
from tests.support.contended_log import contended_log
from tests.support.served import Served, served, until
from tests.support.small_log import small_log

TOKEN = "a-token-of-our-own_123"  # noqa: S105
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}{% raw %}",
    "a\r\nSet-Cookie: x=1\r\n\r\n<html>",
    "\u202egnirts desrever\u202c",
    "javascript:alert(1)",
    "x" * 10_000,
    "\x1b[31mred\x00",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    contended_log().write(folder / "app-20240101000000-0001")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(folder, cache=tmp_path_factory.mktemp("cache")) as server:
        yield server


@pytest.fixture(scope="module")
def locked(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    cache = tmp_path_factory.mktemp("cache")
    with served(folder, cache=cache, options=("--token", TOKEN)) as server:
        yield server


def raw(server: Served, request: bytes) -> bytes:
    """Send bytes as they are, and return the answer."""
    address = urlsplit(server.base)
    with socket.create_connection((address.hostname, address.port), timeout=30) as line:
        answer = b""
        with suppress(OSError):  # it closes before it has read all that is too much
            line.sendall(request)
            line.shutdown(socket.SHUT_WR)
            while more := line.recv(65536):
                answer += more
        return answer


def test_every_answer_carries_the_headers_that_keep_browsers_safe(server: Served) -> None:
    for path in ("/", "/api", "/api/applications", "/nothing", "/static/serve.js", "/together"):
        headers = server.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_other_names_than_its_own_are_not_answered(server: Served) -> None:
    port = urlsplit(server.base).port
    for name in (
        f"evil.example:{port}",
        "evil.example",
        "127.0.0.1.evil.example",
        "",
        "[::2]",
        "[",
    ):
        answer = server.client.get("/api/applications", headers={"Host": name})
        assert answer.status_code in (400, 421), name
    for name in (f"localhost:{port}", f"127.0.0.1:{port}", "[::1]"):
        assert server.client.get("/", headers={"Host": name}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_sites_change_nothing(server: Served, headers: dict[str, str]) -> None:
    key = server.read()[0]["key"]
    for path, content in (
        ("/api/analyses", f'{{"applications": ["{key}"]}}'),
        ("/analyse", f"app={key}"),
    ):
        assert server.client.post(path, content=content, headers=headers).status_code == 403
    assert (
        server.client.post(
            "/analyse", content=f"app={key}", headers={"Origin": server.base}
        ).status_code
        == 303
    )


def test_what_changes_something_is_never_done_by_a_link(server: Served) -> None:
    key = server.read()[0]["key"]
    for path in (f"/analyse?app={key}", f"/stop?app={key}", "/api/analyses"):
        assert server.client.get(path).status_code == 405


def test_without_the_token_nothing_is_answered(locked: Served) -> None:
    assert locked.line.endswith(f"?token={TOKEN}")
    paths = ("/", "/api", "/api/applications", "/static/serve.css", "/nothing")
    for path in paths:
        answer = locked.client.get(path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "contended" not in answer.text
    for wrong in (TOKEN[:-1], TOKEN + "x", "", "é" * 8):
        assert locked.client.get("/", params={"token": wrong}).status_code == 401
        bearer = {"Authorization": f"Bearer  {wrong}.".encode()}
        assert locked.client.get("/api/applications", headers=bearer).status_code == 401
    assert locked.client.post(f"/analyse?token={TOKEN}", content="app=x").status_code == 401
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert locked.client.get("/api/applications", headers=right).status_code == 200


def test_a_browser_keeps_the_token_in_a_strict_cookie(locked: Served) -> None:
    with httpx.Client(base_url=locked.base) as browser:
        answer = browser.get("/together", params={"app": "a&b", "token": TOKEN})
        assert answer.status_code == 200
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert 'url=/together?app=a%26b"' in answer.text
        assert TOKEN not in answer.text
        assert browser.get("/").status_code == 200
    assert until(lambda: any("/together" in line for line in locked.said))
    assert TOKEN not in "".join(locked.said)


def test_the_way_on_after_the_token_never_leads_elsewhere(locked: Served) -> None:
    host = urlsplit(locked.base).netloc.encode()
    for path in (b"//evil.example/", b"/\\evil.example", b"///evil.example"):
        request = b"GET " + path + b"?token=" + TOKEN.encode() + b" HTTP/1.1\r\nHost: " + host
        answer = raw(locked, request + b"\r\nConnection: close\r\n\r\n")
        assert b"url=/evil.example" in answer or b"url=/%5Cevil" in answer or b" 400 " in answer
        assert b"url=//" not in answer


@pytest.mark.slow
def test_any_but_a_loopback_address_asks_for_a_token(folder: Path, tmp_path: Path) -> None:
    with served(folder, cache=tmp_path, options=("--host", "0.0.0.0")) as server:  # noqa: S104
        token = server.address.partition("?token=")[2]
        assert len(token) >= 32
        port = urlsplit(server.base).port
        base = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{base}/").status_code == 401
        bearer = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{base}/api/applications", headers=bearer).status_code == 200
        assert server.stop() == 0


def test_requests_are_bounded(server: Served) -> None:
    large = b"x" * 20_000
    assert server.client.post("/api/analyses", content=large).status_code == 413
    assert server.client.post("/api/analyses", content=iter([large])).status_code == 413
    assert server.client.get("/?q=" + "x" * 5000).status_code == 414
    host = urlsplit(server.base).netloc.encode()
    headers = b"".join(b"X-%d: %s\r\n" % (n, b"y" * 1000) for n in range(200))
    assert b" 200 " not in raw(
        server, b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n" + headers + b"\r\n"
    )
    assert server.client.get("/api/applications").status_code == 200


@pytest.mark.parametrize(
    "path", [b"/static/../worker.py", b"/../../etc/passwd", b"/static/%2e%2e/api.py", b"/a\x00b",
             b"/applications/../../etc/passwd", b"//etc/passwd", b"/static//etc/passwd"],
)  # fmt: skip
def test_no_path_leads_out_of_what_is_served(server: Served, path: bytes) -> None:
    host = urlsplit(server.base).netloc.encode()
    request = b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
    answer = raw(server, request)
    assert answer.split(b" ", 2)[1] in (b"404", b"400"), answer[:200]
    assert b"root:" not in answer


@pytest.mark.slow
def test_a_link_out_of_the_folder_is_listed_but_not_followed(tmp_path: Path) -> None:
    logs, outside = tmp_path / "logs", tmp_path / "outside"
    logs.mkdir()
    secret = contended_log().write(outside / "secret")
    (logs / "app-20240101000000-0001").symlink_to(secret)
    (logs / "folder").symlink_to(outside)
    small_log().write(logs / "app-20240101000000-0002")
    (logs / "app-20240101000000-0003").symlink_to(logs / "app-20240101000000-0002")
    with served(logs, cache=tmp_path / "cache") as server:
        rows = server.read()
        out = [one for one in rows if "leads out of" in one["message"]]
        assert out
        assert all(one["status"] == "failed" for one in out)
        assert "contended" not in server.client.get("/api/applications").text
        (inside,) = (one for one in rows if one["status"] != "failed")
        assert inside["name"] == "app"
        answer = server.client.post("/api/analyses", json={"applications": [out[0]["key"]]})
        assert answer.status_code == 400
        # A log that becomes a link between being listed and being analysed.
        target = logs / "app-20240101000000-0002"
        target.unlink()
        target.symlink_to(secret)
        answer = server.client.post("/api/analyses", json={"applications": [inside["key"]]})
        assert answer.status_code == 400
        assert "leads out of" in answer.json()["detail"]
    with served(logs / "app-20240101000000-0001", cache=tmp_path / "cache") as server:
        # A link that the user names is what the user wants.
        assert [one["name"] for one in server.read()] == ["contended"]


@pytest.mark.slow
def test_nothing_from_a_log_becomes_markup_or_a_header(tmp_path: Path) -> None:
    for number, text in enumerate(HOSTILE):
        log = SyntheticLog(text).app(text, User=text).executor(host=text).job(0, [0]).stage(0)
        log.task_start(0, host=text).task(0, host=text).stage_end(0).job_end(0).end()
        log.write(tmp_path / f"app-2024010100000{number}-0001")
    (tmp_path / 'app-20240101000009-0001"><script>alert(1)<').write_bytes(b"{}\n" * 3)
    with served(tmp_path, cache=tmp_path / "cache") as server:
        rows = server.read()
        assert len(rows) == len(HOSTILE)
        key = next(one["key"] for one in rows if one["name"] == HOSTILE[0])
        assert server.analyse(key)["state"] == "done"
        pages = [server.client.get(f"/applications/{one['key']}") for one in rows]
        pages.append(server.client.get("/", params={"q": HOSTILE[1], "size": 500}))
        pages.append(server.client.get("/", params={"size": 500}))
        for page in pages:
            assert page.status_code == 200
            assert "set-cookie" not in page.headers
            assert "<script>alert" not in page.text
            assert "<img src=x" not in page.text
        assert "&lt;script&gt;alert(1)" in pages[-1].text
        assert all("\x1b" not in line and len(line) < 2000 for line in server.said)


def test_a_secret_in_a_name_is_not_shown(tmp_path: Path) -> None:
    name = "load --password hunter2 AKIAIOSFODNN7EXAMPLE"
    SyntheticLog().app(name).end().write(tmp_path / "app-20240101000000-0001")
    with served(tmp_path, cache=tmp_path / "cache") as server:
        assert "redacted" in server.read()[0]["name"]
        answer = server.client.get("/").text
        assert "hunter2" not in answer
        assert "AKIA" not in answer


@pytest.mark.slow
def test_results_are_kept_only_where_nobody_else_can_write(folder: Path, tmp_path: Path) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    done = iqcar("serve", folder, "--cache", open_folder)
    assert done.returncode == 1
    assert "others can write" in done.stderr
    assert done.stderr.count("\n") == 1
    with served(folder, cache=tmp_path / "new" / "cache") as server:
        assert stat.S_IMODE(server.cache.stat().st_mode) == 0o700


@pytest.mark.slow
@pytest.mark.parametrize("token", ["brief", "x" * 15, "spaces are not allowed here", "é" * 20])
def test_a_poor_token_is_refused(folder: Path, token: str) -> None:
    done = iqcar("serve", folder, "--token", token)
    assert done.returncode == 2
    assert "--token" in done.stderr
    assert token not in done.stderr
