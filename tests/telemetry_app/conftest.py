"""Fixtures of the application's tests: a writer of records, and a Redis that is out."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import redis
from django.db import transaction

from telemetry_app import partitions
from telemetry_app.inspection import devices, every_run
from tests.support.records import START, RecordWriter


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker) -> None:
    """Make the partitions of the days that tests use once, not in each test."""
    today = datetime.fromtimestamp(START, UTC).date()
    days = [today + timedelta(days=offset) for offset in range(-20, partitions.DAYS_AHEAD + 1)]
    with django_db_blocker.unblock(), transaction.atomic():
        for model in partitions.partitioned_models():
            partitions.ensure_days(model, days)


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    """Have each test told of its own runs and turns."""
    every_run.forget()
    devices.forget()


@pytest.fixture
def writer(redis_client: redis.Redis) -> RecordWriter:
    """Writes records into an empty Redis, as workers do."""
    return RecordWriter(redis_client)


@pytest.fixture
def point_site_at(settings) -> Callable[[str], None]:
    """A function that makes the site read its records from another Redis."""

    def point(url: str) -> None:
        telemetry = settings.CACHES["telemetry"]
        options = {**telemetry["OPTIONS"], "SOCKET_CONNECT_TIMEOUT": 0.1, "SOCKET_TIMEOUT": 0.1}
        settings.CACHES = {**settings.CACHES, "telemetry": {**telemetry, "LOCATION": url, "OPTIONS": options}}

    return point


@pytest.fixture
def silent_redis_url() -> Iterator[str]:
    """The URL of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"


@pytest.fixture
def redis_out(point_site_at, tmp_path) -> None:
    """Redis is out: nothing listens where the site looks."""
    point_site_at(f"unix://{tmp_path}/nothing.sock?db=0")
