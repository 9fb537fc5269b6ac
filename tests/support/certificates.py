"""Certificates for servers of a test, each its own authority: good ones, and wrong ones."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


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
