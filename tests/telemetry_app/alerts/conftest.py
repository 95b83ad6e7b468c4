"""Fixtures of alerts: receivers on loopback, a channel to each, a rule, and incidents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from telemetry_app.alerts import http
from telemetry_app.models import AlertChannel, AlertRule, Incident, Run
from telemetry_app.models.alerts import new_secret
from tests.support.receivers import HttpReceiver, MailServer
from tests.support.records import RUN, START

NOW = datetime.fromtimestamp(START, UTC)
FACT = {"text": "the newest 3 forward_backward failed", "record_ids": ["w:1", "w:2"], "request_ids": ["q-1"],
        "worker": "t-1", "operation": "forward_backward"}  # fmt: skip


@pytest.fixture(autouse=True)
def _alert_settings(settings, monkeypatch):
    settings.TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES = True
    settings.TELEMETRY_SITE_URL = "https://telemetry.example"
    monkeypatch.setattr(http, "TOTAL_SECONDS", 1.0)


@pytest.fixture
def receiver():
    server = HttpReceiver()
    yield server
    server.stop()


@pytest.fixture
def mail_server(settings):
    server = MailServer()
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = "127.0.0.1", server.port, 1
    settings.DEFAULT_FROM_EMAIL = "Telemetry <telemetry@example.org>"
    yield server
    server.stop()


@pytest.fixture
def webhook(receiver, db):
    return AlertChannel.objects.create(name="hook", kind="webhook", url=receiver.url, secret=new_secret())


@pytest.fixture
def slack(receiver, db):
    return AlertChannel.objects.create(name="chat", kind="slack", url=receiver.url)


@pytest.fixture
def mail(mail_server, db):
    return AlertChannel.objects.create(name="mail", kind="email", recipients="a@example.org, b@example.org")


@pytest.fixture
def make_rule(db):
    def make(*channels, name="all", after_seconds=0, **fields):
        rule = AlertRule.objects.create(name=name, after_seconds=after_seconds, **fields)
        rule.channels.set(channels)
        return rule

    return make


@pytest.fixture
def make_incident(db):
    """A function that stores an incident that began so many seconds before `NOW`, or before the clock's own now."""

    def make(code="failing", *, run_id=RUN, began=60.0, ended=None, at=NOW, cause="3 failed", **fields):
        started_at = at - timedelta(seconds=began)
        ended_at = None if ended is None else at - timedelta(seconds=ended)
        return Incident.objects.create(
            run_id=run_id, code=code, cause=cause, started_at=started_at, ended_at=ended_at,
            last_held_at=ended_at or at, changed_at=ended_at or started_at, **{"evidence": [FACT], **fields},
        )  # fmt: skip

    return make


@pytest.fixture
def make_run(db):
    def make(run_id=RUN, **fields):
        return Run.objects.create(run_id=run_id, first_seen_at=NOW, last_activity_at=NOW, **fields)

    return make


def end(incident, at):
    """End an incident at an instant."""
    incident.ended_at = incident.last_held_at = incident.changed_at = at
    incident.save()


def seconds_later(seconds):
    return NOW + timedelta(seconds=seconds)


def clock_now():
    return timezone.now()
