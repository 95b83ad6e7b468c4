"""Fixtures of all tests: real Redis, emptied before each test that uses it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import redis
from hypothesis import HealthCheck, settings

# A loaded machine must not fail a property for its time alone.
settings.register_profile("suite", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So it is for a run in the background of a shell; worker processes of tests would inherit it and never see Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def redis_url() -> str:
    """The URL of the Redis that workers write to and the site reads."""
    return os.environ["REDIS_URL"]


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[redis.Redis]:
    """A client of an empty Redis."""
    with redis.Redis.from_url(redis_url, socket_timeout=5) as client:
        client.flushdb()
        yield client
