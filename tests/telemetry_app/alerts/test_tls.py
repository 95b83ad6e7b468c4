"""TLS at a checked address: the certificate has to be that of the name, whatever the address is."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from telemetry_app.alerts import http
from telemetry_app.alerts.outcomes import Outcome
from tests.support.receivers import HttpReceiver


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    """A certificate of `hook.example`, which the site trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "hook.example")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hook.example")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path = tmp_path / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ) + made.public_bytes(serialization.Encoding.PEM)
    )  # fmt: skip
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


@pytest.fixture
def tls_receiver(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = HttpReceiver(tls=context)
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _names(monkeypatch):
    original = socket.getaddrinfo

    def look_up(host, *arguments, **options):
        return original("127.0.0.1" if host.endswith(".example") else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def test_a_name_is_taken_by_its_certificate(tls_receiver):
    answer = http.request("POST", f"https://hook.example:{tls_receiver.port}/", headers={})
    assert answer.outcome is Outcome.DELIVERED, answer.text
    assert tls_receiver.received[0].headers["host"] == f"hook.example:{tls_receiver.port}"


@pytest.mark.parametrize("host", ["other.example", "127.0.0.1"])
def test_another_name_is_refused_before_anything_is_sent(tls_receiver, host):
    answer = http.request("POST", f"https://{host}:{tls_receiver.port}/", headers={})
    assert answer.outcome is Outcome.FAILED
    assert "CERTIFICATE_VERIFY_FAILED" in answer.text
    assert tls_receiver.received == []
