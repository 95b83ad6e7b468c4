"""Pings to an external service: while the site is well, and not otherwise."""

from __future__ import annotations

import pytest

from telemetry_app import readiness
from telemetry_app.alerts.heartbeat import NOT_SET, ping
from telemetry_app.models import HeartbeatPing
from telemetry_app.readiness import Check
from telemetry_app.snapshots import take_snapshot

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_client")]


@pytest.fixture
def watched(receiver, settings):
    settings.TELEMETRY_HEARTBEAT_URL = receiver.url
    return receiver


def test_a_site_that_is_well_pings(watched):
    take_snapshot()
    ping()
    kept = HeartbeatPing.objects.get()
    assert len(watched.received) == 1
    assert (kept.is_well, kept.detail) == (True, "HTTP 200 ok")
    assert kept.taken_at == kept.pinged_at == kept.looked_at


def test_a_site_that_is_not_well_is_silent_and_says_why(watched, redis_out):
    ping()
    kept = HeartbeatPing.objects.get()
    assert watched.received == []
    assert not kept.is_well
    assert "redis" in kept.detail


def test_a_service_that_fails_is_shown_with_the_last_ping_it_took(watched, monkeypatch):
    monkeypatch.setattr(readiness, "check_all", lambda **_: [Check("redis", True)])
    taken_at = ping().taken_at
    watched.mode = 500
    kept = ping()
    assert (kept.is_well, kept.detail, kept.taken_at) == (False, "HTTP 500 ok", taken_at)


def test_a_service_on_a_private_address_is_refused(watched, settings, monkeypatch):
    monkeypatch.setattr(readiness, "check_all", lambda **_: [])
    settings.TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES = False
    assert "not public" in ping().detail
    assert watched.received == []


def test_without_a_url_nothing_is_asked_or_kept(settings):
    assert ping().detail == NOT_SET
    assert not HeartbeatPing.objects.exists()
