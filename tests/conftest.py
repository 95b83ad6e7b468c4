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

# A shell ignores SIGINT for what it runs in the background, nohup SIGHUP; worker processes of tests would inherit that.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


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
