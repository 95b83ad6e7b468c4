"""Fixtures of the client's tests: a Redis of a test's own, a proxy before it, and a recorder that goes through it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from openrl_site.embedded_redis import EmbeddedRedis
from tests.support.tcp_proxy import TcpProxy
from tests.support.workers import end_recorder, make_recorder
from workers_client.recorder import Recorder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    """A Redis of this test's own, which it may stop and kill."""
    own = EmbeddedRedis(tmp_path)
    own.start()
    yield own
    own.stop()


@pytest.fixture
def proxy(server: EmbeddedRedis) -> Iterator[TcpProxy]:
    with TcpProxy(str(server.socket)) as running:
        yield running


@pytest.fixture
def client(server: EmbeddedRedis) -> Iterator[redis.Redis]:
    with redis.Redis(unix_socket_path=str(server.socket), socket_timeout=10) as direct:
        yield direct


@pytest.fixture
def recorder(proxy: TcpProxy) -> Iterator[Recorder]:
    made = make_recorder(proxy.url)
    yield made
    end_recorder(made)
