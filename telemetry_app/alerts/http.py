"""One HTTP request to a receiver outside: to a checked address, in a bounded time, with a bounded answer.

httpcore2 alone, which connects where we say and follows no redirect and no proxy of the environment: httpx2 offers no
way to choose the address and keep the name in TLS.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpcore2
from django.conf import settings

from telemetry_app.alerts.addresses import AddressRefusedError, checked_addresses
from telemetry_app.alerts.outcomes import Answer, Outcome, one_line

TOTAL_SECONDS = 10.0
CONNECT_SECONDS = 4.0  # to one address, so that the next one has its turn
ANSWER_BYTES = 2_000
GATEWAY_TIMEOUT = 504  # passed on, and not answered in time: it may have arrived
# Answers that a later attempt may change: time-outs, "too early" and "too many requests".
_PASSING_CLIENT_ERRORS = (408, 425, 429)


def request(method: str, url: str, *, body: bytes = b"", headers: Mapping[str, str]) -> Answer:
    """Send one request and return what came of it; nothing is raised for what a receiver does."""
    backend = _CheckedBackend(time.monotonic() + TOTAL_SECONDS)
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    try:
        with (
            httpcore2.ConnectionPool(network_backend=backend) as pool,
            pool.stream(method, url, headers=pairs, content=body) as response,
        ):
            return _answer(response)
    except AddressRefusedError as error:
        return Answer(Outcome.REFUSED, one_line(f"Not sent: {error}."))
    except (httpcore2.UnsupportedProtocol, httpcore2.LocalProtocolError) as error:
        return Answer(Outcome.REFUSED, one_line(f"Not sent: {error}"))
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
        what = one_line(f"{type(error).__name__} {error}")
        if backend.was_written:
            return Answer(Outcome.IN_DOUBT, f"Sent, and no answer came: {what}")
        return Answer(Outcome.FAILED, f"Not sent: {what}")


def _answer(response: httpcore2.Response) -> Answer:
    text = one_line(f"HTTP {response.status} {_beginning(response)}")
    if 200 <= response.status < 300:
        return Answer(Outcome.DELIVERED, text)
    if response.status == GATEWAY_TIMEOUT:
        return Answer(Outcome.IN_DOUBT, text)
    if response.status in _PASSING_CLIENT_ERRORS or response.status >= 500:
        return Answer(Outcome.FAILED, text, _retry_after(response))
    return Answer(Outcome.REFUSED, text)


def _beginning(response: httpcore2.Response) -> str:
    """Return how the body begins; the status stands, whatever becomes of its body."""
    taken = b""
    try:
        for chunk in response.iter_stream():
            taken += chunk[:ANSWER_BYTES]
            if len(taken) >= ANSWER_BYTES:
                break
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError):
        pass
    return taken[:ANSWER_BYTES].decode("utf-8", "replace")


def _retry_after(response: httpcore2.Response) -> float | None:
    value = next((value for name, value in response.headers if name.lower() == b"retry-after"), b"")
    return float(value) if value.isdigit() and len(value) < 8 else None


@dataclass(slots=True)
class _CheckedBackend(httpcore2.NetworkBackend):
    """Connects to checked addresses, until a deadline (monotonic seconds); knows whether any byte went out."""

    deadline: float
    was_written: bool = False

    def left_seconds(self) -> float:
        """Return the seconds that are left.

        Raises:
            httpcore2.TimeoutException: none.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout(f"after {TOTAL_SECONDS:.0f} s in all")
        return left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to the first of the host's addresses that answers."""
        allows = settings.TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES
        addresses = checked_addresses(
            host.strip("[]"), port, allows_private=allows, timeout_seconds=self.left_seconds()
        )
        error: Exception = OSError(f"{host} has no address")
        for address in addresses:
            try:
                limit = min(self.left_seconds(), CONNECT_SECONDS)
                return _TimedStream(httpcore2.SyncBackend().connect_tcp(address, port, timeout=limit), self)
            except (httpcore2.NetworkError, httpcore2.ConnectTimeout) as refused:
                error = refused
        raise error


class _TimedStream(httpcore2.NetworkStream):
    """A connection whose reads and writes end together at the deadline: one that trickles is no way round it."""

    def __init__(self, inner: httpcore2.NetworkStream, backend: _CheckedBackend) -> None:
        self._inner, self._backend = inner, backend

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what there is."""
        return self._inner.read(max_bytes, self._backend.left_seconds())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all of it."""
        left = self._backend.left_seconds()
        self._backend.was_written = True
        self._inner.write(buffer, left)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        """Begin TLS with the host's own name, whatever the address."""
        inner = self._inner.start_tls(ssl_context, server_hostname, self._backend.left_seconds())
        return _TimedStream(inner, self._backend)

    def close(self) -> None:
        """Close it."""
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        """Return what is known of the connection."""
        return self._inner.get_extra_info(info)
