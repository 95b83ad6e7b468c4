"""Alerts beside the other duties: their task, what retention removes of them, and a run that is removed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from telemetry_app import tasks
from telemetry_app.alerts.notices import take_notice
from telemetry_app.alerts.sending import send_due
from telemetry_app.models import AlertDelivery, AlertNotice, Incident
from telemetry_app.retention import apply_retention
from tests.support.policies import keep

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_client")]


def test_the_task_notes_and_sends(webhook, receiver, make_rule, make_incident):
    make_rule(webhook)
    make_incident(at=timezone.now())
    summary = tasks.alerts()
    assert (summary["noticed"]["starts"], summary["sent"]["sent"]) == (1, 1)
    assert len(receiver.received) == 1


def test_a_look_that_fails_stops_no_message_that_is_due(webhook, receiver, make_rule, make_incident, monkeypatch):
    make_rule(webhook)
    make_incident(at=timezone.now())
    take_notice()

    def broken():
        raise TypeError("ours")

    monkeypatch.setattr(tasks, "take_notice", broken)
    with pytest.raises(TypeError):
        tasks.alerts()
    assert len(receiver.received) == 1


def test_the_heartbeat_task_says_what_came_of_it(settings):
    assert "not set" in tasks.heartbeat()


@pytest.mark.django_db(transaction=True)
def test_what_was_told_goes_with_its_incidents(webhook, receiver, make_rule, make_incident):
    make_rule(webhook)
    old = make_incident(at=timezone.now() - timedelta(days=40))
    make_incident("lost", at=timezone.now())
    take_notice()
    send_due()
    long_ago = timezone.now() - timedelta(days=39)
    Incident.objects.filter(pk=old.pk).update(ended_at=long_ago)
    AlertNotice.objects.update(noticed_at=long_ago)
    AlertDelivery.objects.update(created_at=long_ago)
    keep(incidents=30)
    apply_retention()
    assert list(Incident.objects.values_list("code", flat=True)) == ["lost"]
    assert list(AlertNotice.objects.values_list("incident__code", flat=True)) == ["lost"]
    assert AlertDelivery.objects.get() == AlertNotice.objects.get().delivery


def test_an_incident_that_is_gone_before_its_message_is_written_is_told_by_its_title(
    webhook, receiver, make_rule, make_incident
):
    make_rule(webhook)
    make_incident(at=timezone.now())
    take_notice()
    Incident.objects.all().delete()
    send_due()
    content = receiver.received[0].content
    assert (content["title"], content["incidents"], content["more_count"]) == ("failing: run-a", [], 1)
