"""The site's connections to Redis: as many at once as there may be, and whoever comes later waits for one."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from django_redis import get_redis_connection


@pytest.fixture
def few(settings, request):
    """Two connections for all, for which one waits as many seconds at most as the test says."""
    telemetry = settings.CACHES["telemetry"]
    pool = {**telemetry["OPTIONS"]["CONNECTION_POOL_KWARGS"], "max_connections": 2, "timeout": request.param}
    options = {**telemetry["OPTIONS"], "CONNECTION_POOL_KWARGS": pool}
    location = telemetry["LOCATION"] + f"&client_name=few{request.param}"  # pools are kept by their URL
    settings.CACHES = {**settings.CACHES, "telemetry": {**telemetry, "LOCATION": location, "OPTIONS": options}}
    return get_redis_connection("telemetry")


@pytest.mark.parametrize("few", [30], indirect=True)
def test_more_callers_than_connections_are_all_answered(few):
    together = threading.Barrier(20)

    def call(_):
        together.wait(10)
        return few.ping()

    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(call, range(20)))


@pytest.mark.parametrize("few", [0.5], indirect=True)
def test_whoever_finds_none_in_time_is_told(few):
    held = [few.connection_pool.get_connection() for _ in range(2)]
    with pytest.raises(redis.ConnectionError):
        few.ping()
    for connection in held:
        few.connection_pool.release(connection)


def test_no_wait_is_longer_than_for_an_answer(settings):
    for cache in settings.CACHES.values():
        assert cache["OPTIONS"]["CONNECTION_POOL_KWARGS"]["timeout"] <= cache["OPTIONS"]["SOCKET_TIMEOUT"]
