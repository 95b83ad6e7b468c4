"""Which incidents are told, to whom, and when: once at the start, once at the end, and nothing in between."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model

from telemetry_app.alerts.notices import take_notice
from telemetry_app.models import AlertChannel, AlertDelivery, AlertMute, AlertNotice, Incident
from tests.support.snapshots import all_at_once
from tests.telemetry_app.alerts.conftest import NOW, end, seconds_later

pytestmark = pytest.mark.django_db


@pytest.fixture
def channel():
    return AlertChannel.objects.create(name="hook", kind="webhook", url="https://hook.example/")


def look(after_seconds=0.0):
    return take_notice(now=seconds_later(after_seconds))


def told():
    return list(AlertDelivery.objects.order_by("id").values_list("edge", "title", "incidents_count"))


def all_sent():
    AlertDelivery.objects.update(state="sent")


# --- Rules ----------------------------------------------------------------------------------------------------
def test_an_open_incident_is_told_once_however_often_one_looks(channel, make_rule, make_incident):
    make_rule(channel)
    make_incident()
    assert [look(after).starts for after in (0, 5, 10)] == [1, 0, 0]
    assert told() == [("start", "failing: run-a", 1)]


def test_without_rules_or_channels_nothing_is_told(channel, make_rule, make_incident):
    make_incident()
    assert look().starts == 0
    rule = make_rule(channel, is_enabled=False)
    assert look().starts == 0
    rule.is_enabled = True
    rule.save()
    AlertChannel.objects.update(is_enabled=False)
    assert look().starts == 0


def test_two_rules_that_lead_to_a_channel_tell_it_once(channel, make_rule, make_incident):
    other = AlertChannel.objects.create(name="other", kind="slack", url="https://chat.example/")
    make_rule(channel, name="one")
    make_rule(channel, other, name="two")
    make_incident()
    look()
    assert sorted(AlertNotice.objects.values_list("channel__name", flat=True)) == ["hook", "other"]


def test_the_delay_counts_from_the_incidents_start(channel, make_rule, make_incident):
    make_rule(channel, after_seconds=300)
    make_incident(began=100)
    assert [look(after).starts for after in (0, 199, 200)] == [0, 0, 1]


def test_what_ends_before_its_delay_is_never_told(channel, make_rule, make_incident):
    make_rule(channel, after_seconds=300)
    incident = make_incident(began=100)
    look()
    end(incident, seconds_later(20))
    assert [look(after).starts + look(after).ends for after in (200, 400, 1_000)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({"codes": ["failing", "lost"]}, True),
        ({"codes": ["lost"]}, False),
        ({"run_contains": "UN-A"}, True),
        ({"run_contains": "nightly"}, True),
        ({"run_contains": "run-b"}, False),
        ({"tag": "prod"}, True),
        ({"tag": "pro"}, False),
    ],
)
def test_a_rule_picks_by_code_run_and_tag(channel, make_rule, make_incident, make_run, fields, is_told):
    make_run(name="The Nightly one", tags=["prod", "a"])
    make_rule(channel, **fields)
    make_incident()
    assert look().starts == is_told


def test_a_rule_picks_by_owner(channel, make_rule, make_incident, make_run):
    ada, bob = (get_user_model().objects.create_user(name) for name in ("ada", "bob"))
    make_run(owner=ada)
    make_incident()
    make_rule(channel, name="bob's", owner=bob)
    assert look().starts == 0
    make_rule(channel, name="ada's", owner=ada)
    assert look().starts == 1


def test_a_run_that_no_snapshot_took_yet_is_told_by_its_id(channel, make_rule, make_incident):
    make_rule(channel, name="by id", run_contains="run-a")
    make_rule(channel, name="by tag", tag="prod")
    make_incident()
    look()
    assert AlertNotice.objects.get().rule.name == "by id"


# --- Ends -----------------------------------------------------------------------------------------------------
def test_the_end_is_told_once_it_can_not_come_back_as_the_same(channel, make_rule, make_incident):
    make_rule(channel)
    incident = make_incident()
    look()
    all_sent()
    end(incident, seconds_later(30))
    assert [look(after).ends for after in (60, 329, 331, 400)] == [0, 0, 1, 0]
    assert [edge for edge, _, _ in told()] == ["start", "end"]


def test_a_flapping_incident_is_told_once_at_its_start_and_once_at_its_last_end(channel, make_rule, make_incident):
    make_rule(channel)
    incident = make_incident()
    for after in (0, 100, 200):
        look(after)
        all_sent()
        end(incident, seconds_later(after + 40))
        look(after + 60)
        Incident.objects.update(ended_at=None)
        look(after + 80)
        assert [edge for edge, _, _ in told()] == ["start"]
    incident.refresh_from_db()
    end(incident, seconds_later(300))
    look(601)
    assert [edge for edge, _, _ in told()] == ["start", "end"]


@pytest.mark.parametrize(("state", "ends"), [("sent", 1), ("unknown", 1), ("failed", 0), ("queued", 0), ("sending", 0)])
def test_an_end_is_told_only_where_the_start_may_have_been_heard(channel, make_rule, make_incident, state, ends):
    make_rule(channel)
    incident = make_incident()
    look()
    AlertDelivery.objects.update(state=state)
    end(incident, NOW)
    assert look(400).ends == ends


def test_an_end_waits_for_its_start_that_is_tried_again(channel, make_rule, make_incident):
    make_rule(channel)
    incident = make_incident()
    look()
    end(incident, NOW)
    assert look(400).ends == 0
    all_sent()
    assert look(405).ends == 1


def test_an_end_is_told_though_its_rule_is_gone(channel, make_rule, make_incident):
    rule = make_rule(channel)
    incident = make_incident()
    look()
    all_sent()
    rule.delete()
    end(incident, NOW)
    assert look(400).ends == 1


# --- Digests --------------------------------------------------------------------------------------------------
def test_many_that_start_at_once_are_one_message(channel, make_rule, make_incident):
    make_rule(channel)
    for number in range(40):
        make_incident(run_id=f"run-{number}")
    assert look().starts == 40
    assert told() == [("start", "40 incidents began", 40)]


def test_as_many_as_the_limit_are_a_message_each(channel, make_rule, make_incident):
    make_rule(channel)
    for number in range(5):
        make_incident(run_id=f"run-{number}")
    look()
    assert [count for _, _, count in told()] == [1] * 5


def test_a_flood_over_several_looks_is_one_digest_a_minute(channel, make_rule, make_incident):
    make_rule(channel)
    counts = []
    for after in range(0, 180, 5):
        for number in range(3):
            make_incident(run_id=f"run-{after}-{number}", began=0, at=seconds_later(after))
        look(after)
    counts = [count for _, _, count in told()]
    assert counts[:3] == [1, 1, 1]
    assert len(counts) <= 3 + 3
    assert sum(counts) == AlertNotice.objects.count()


def test_many_that_end_at_once_are_one_message(channel, make_rule, make_incident):
    make_rule(channel)
    for number in range(40):
        make_incident(run_id=f"run-{number}")
    look()
    all_sent()
    Incident.objects.update(ended_at=NOW)
    assert look(301).ends == 40
    assert told()[1:] == [("end", "40 incidents ended", 40)]


# --- Mutes ----------------------------------------------------------------------------------------------------
def mute(**fields):
    return AlertMute.objects.create(starts_at=NOW - timedelta(hours=1), **fields)


def test_what_is_muted_is_noted_and_told_to_nobody(channel, make_rule, make_incident):
    make_rule(channel)
    held = mute(run_id="run-a")
    incident = make_incident()
    assert (look().muted, look(5).muted) == (1, 0)
    notice = AlertNotice.objects.get()
    assert (notice.delivery, notice.mute) == (None, held)
    end(incident, seconds_later(10))
    look(400)
    held.delete()
    look(500)
    assert told() == []


def test_what_still_holds_when_its_mute_ends_is_told_then(channel, make_rule, make_incident):
    make_rule(channel)
    mute(ends_at=seconds_later(100))
    make_incident()
    assert [look(after).starts for after in (0, 99, 100)] == [0, 0, 1]
    assert AlertNotice.objects.get().mute is None


def test_mutes_cover_a_run_a_rule_or_both(channel, make_rule, make_incident):
    rule, other = make_rule(channel, name="one", codes=["failing"]), make_rule(channel, name="two", codes=["lost"])
    mute(run_id="run-a", rule=rule)
    mute(run_id="run-b", rule=other)
    for run_id in ("run-a", "run-b"):
        make_incident(run_id=run_id)
    look()
    assert [title for _, title, _ in told()] == ["failing: run-b"]


def test_a_mute_of_one_rule_leaves_what_another_tells(channel, make_rule, make_incident):
    loud = make_rule(channel, name="b, loud", after_seconds=90)
    mute(rule=make_rule(channel, name="a, muted"))
    make_incident(began=60)
    assert (look().muted, look(30).starts) == (1, 1)
    assert AlertNotice.objects.get().rule == loud


def test_a_mute_before_its_start_and_after_its_end_covers_nothing(channel, make_rule, make_incident):
    make_rule(channel)
    AlertMute.objects.create(starts_at=seconds_later(1))
    AlertMute.objects.create(starts_at=seconds_later(-9), ends_at=NOW)
    make_incident()
    assert look().starts == 1


def test_an_end_within_a_mute_is_told_to_nobody_for_good(channel, make_rule, make_incident):
    make_rule(channel)
    incident = make_incident()
    look()
    all_sent()
    mute(ends_at=seconds_later(500))
    end(incident, NOW)
    assert [look(after).ends for after in (400, 600)] == [0, 0]
    assert AlertNotice.objects.get(edge="end").mute is not None


# --- At once, and costs ---------------------------------------------------------------------------------------
@pytest.mark.django_db(transaction=True)
def test_looks_at_once_tell_once(channel, make_rule, make_incident):
    make_rule(channel)
    make_incident()
    assert all_at_once(4, look) == []
    assert len(told()) == 1


def test_a_look_costs_as_many_queries_for_many_as_for_one(
    channel, make_rule, make_incident, django_assert_max_num_queries
):
    make_rule(channel)
    AlertChannel.objects.update(digest_over=100)
    for count in (1, 30):
        for number in range(count):
            make_incident(run_id=f"run-{count}-{number}")
        with django_assert_max_num_queries(14):
            look(count * 100)
        all_sent()
    Incident.objects.update(ended_at=NOW)
    with django_assert_max_num_queries(16):
        assert look(4_000).ends == 31


def test_a_look_without_rules_costs_next_to_nothing(make_incident, django_assert_max_num_queries):
    make_incident()
    with django_assert_max_num_queries(8):
        look()
