"""Servers whose TLS is wrong: one sentence says what, and what to do, whichever client asks."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from iqcar.errors import IqcarError
from iqcar.logs.find.resource_manager import ask_resource_manager
from tests.support.command import iqcar
from tests.support.hosted_apps import TWO
from tests.support.log_places import APP, logs, unreadable
from tests.support.web_server import web_server


def certificate(path: Path, *, host: str = "", days: tuple[int, int] = (-2, 2)) -> Path:
    """Write a certificate with its key.

    host: name that it is for; by default the loopback address.
    days: from when it is valid, and until when, from now on.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    place = x509.DNSName(host) if host else x509.IPAddress(ip_address("127.0.0.1"))
    begin, end = (datetime.now(timezone.utc) + timedelta(days=day) for day in days)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, begin, end)
        .add_extension(x509.SubjectAlternativeName([place]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    kind, secret = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(pem, kind, secret) + made.public_bytes(pem))
    return path


EXPIRED, FUTURE = (-9, -1), (1, 9)
NOT_TRUSTED = (
    "its certificate is not trusted (self-signed certificate); name the file of its authority in"
    " SSL_CERT_FILE (of S3's in AWS_CA_BUNDLE)"
)
PLACES = ["", f"/logs/{APP}"]
"""A History Server, and a file, which another client asks for."""


@pytest.fixture(autouse=True)
def _no_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiohttp")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)


@pytest.mark.parametrize("place", PLACES)
def test_a_server_that_nobody_vouches_for_is_told_with_what_names_its_authority(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_server(TWO, certificate(tmp_path / "own.pem")) as url:
        assert unreadable([url + place]).removeprefix("it cannot be read: ") == NOT_TRUSTED
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
        assert "SSL_CERT_FILE names no file" in unreadable([url + place])


@pytest.mark.long
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("host", "days", "says"),
    [
        ("", EXPIRED, "its certificate has expired: whoever runs the server has to renew it"),
        ("", FUTURE, "its certificate is not yet valid: the server's clock or this one is wrong"),
        ("other.example", (-2, 2), "its certificate is for another host (IP address mismatch"),
    ],
)
def test_a_wrong_certificate_of_an_authority_that_is_trusted_is_told(
    place: str, host: str, days: tuple[int, int], says: str, tmp_path: Path
) -> None:
    wrong = certificate(tmp_path / "wrong.pem", host=host, days=days)
    with web_server(TWO, wrong) as url:
        done = iqcar("analyze", url + place, env={"SSL_CERT_FILE": str(wrong)})
    assert done.returncode == 1
    assert says in done.stderr
    assert "SSL_CERT_FILE" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_server_of_an_authority_that_the_environment_names_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = certificate(tmp_path / "good.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(good))
    with web_server(TWO, good) as url:
        assert len(logs([f"{url}/history/{APP}"])) == 2


@pytest.mark.parametrize("place", PLACES)
def test_a_server_without_tls_is_told(place: str) -> None:
    with web_server(TWO) as url:
        said = unreadable([url.replace("http", "https") + place])
    assert said.endswith("TLS fails (wrong version number); is it a server of https?")


def test_a_resource_manager_that_nobody_vouches_for_is_told(tmp_path: Path) -> None:
    with (
        web_server(TWO, certificate(tmp_path / "own.pem")) as url,
        pytest.raises(IqcarError) as raised,
    ):
        ask_resource_manager(url)
    assert NOT_TRUSTED in str(raised.value)


def test_a_store_behind_tls_that_nobody_vouches_for_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("s3fs")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with web_server(TWO, certificate(tmp_path / "own.pem")) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        done = iqcar("analyze", "s3://bucket/log")
    assert NOT_TRUSTED in done.stderr


def test_a_host_that_does_not_answer_is_no_file_that_is_missing() -> None:
    with web_server(TWO) as url:
        pass
    assert "connect call failed" in unreadable([f"{url}/logs/{APP}"])
