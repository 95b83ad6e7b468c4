"""Liveness asks nobody; readiness names what fails."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from telemetry_app.snapshots import take_snapshot

PATHS = ["/readyz", "/api/v1/inspect/readyz"]


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/inspect/healthz"])
def test_liveness_asks_no_other_server(client, path):
    """Without the mark of a database, asking it would fail."""
    assert client.get(path).json() == {"status": "ok"}


@pytest.mark.django_db
@pytest.mark.parametrize("path", PATHS)
def test_a_site_that_does_its_work_is_ready(client, redis_client, path):
    take_snapshot()
    answer = client.get(path)
    assert (answer.status_code, answer.json()["status"], answer.json()["failed"]) == (200, "ready", [])
    assert set(answer.json()["checks"]) == {"redis", "postgres", "partitions", "snapshot", "retention"}
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", PATHS)
def test_what_fails_is_named_with_503(client, redis_client, path):
    take_snapshot(now=timezone.now() - timedelta(hours=1))
    answer = client.get(path)
    assert (answer.status_code, answer.json()["status"], answer.json()["failed"]) == (503, "not_ready", ["snapshot"])


@pytest.mark.django_db
def test_without_postgresql_it_says_so(client, redis_client):
    def refuse(*_args, **_options):
        raise OperationalError("refused")

    with connection.execute_wrapper(refuse):
        answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["failed"]) == (503, ["postgres"])
    assert set(answer.json()["checks"]) == {"redis", "postgres"}
