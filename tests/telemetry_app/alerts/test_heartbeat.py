"""Pings to an external service: while the site is well, and not otherwise."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from telemetry_app.alerts.heartbeat import NOT_SET, ping
from telemetry_app.incidents import take_verdicts
from telemetry_app.models import HeartbeatPing, VerdictPass
from telemetry_app.snapshots import take_snapshot
from telemetry_app.tasks import alerts

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_client")]


@pytest.fixture
def watched(receiver, settings):
    settings.TELEMETRY_HEARTBEAT_URL = receiver.url
    return receiver


@pytest.fixture
def at_work(redis_client):
    """A site that takes snapshots and verdicts, and tells of incidents."""
    take_snapshot()
    take_verdicts()
    alerts()


def test_a_site_that_is_well_pings(watched, at_work):
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


@pytest.mark.parametrize(
    ("late", "what"),
    [
        (lambda at: VerdictPass.objects.update(ended_at=at), "verdicts"),
        (lambda at: HeartbeatPing.objects.update(alerts_at=at), "alerts"),
    ],
)
def test_a_site_that_could_tell_nobody_is_silent(watched, at_work, late, what):
    late(timezone.now() - timedelta(seconds=119))
    ping()
    late(timezone.now() - timedelta(seconds=121))
    kept = ping()
    assert len(watched.received) == 1
    assert f"{what}: the newest are 2 min 1 s old" in kept.detail


def test_alerts_that_fail_each_time_are_late(watched, at_work, monkeypatch):
    def fail():
        raise OSError("no look")

    old = timezone.now() - timedelta(seconds=100)
    HeartbeatPing.objects.update(alerts_at=old)
    monkeypatch.setattr("telemetry_app.tasks.take_notice", fail)
    with pytest.raises(OSError, match="no look"):
        alerts()
    assert HeartbeatPing.objects.get().alerts_at == old


def test_a_service_that_fails_is_shown_with_the_last_ping_it_took(watched, at_work):
    taken_at = ping().taken_at
    watched.mode = 500
    kept = ping()
    assert (kept.is_well, kept.detail, kept.taken_at) == (False, "HTTP 500 ok", taken_at)


def test_a_service_on_a_private_address_is_refused(watched, at_work, settings):
    settings.TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES = False
    assert "not public" in ping().detail
    assert watched.received == []


def test_without_a_url_nothing_is_asked_or_kept(settings):
    assert ping().detail == NOT_SET
    assert not HeartbeatPing.objects.exists()
