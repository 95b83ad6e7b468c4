"""The pages of alerts: rules with a dry run, channels with a test, mutes, and deliveries with their answers."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from telemetry_app.alerts.notices import take_notice
from telemetry_app.alerts.sending import send_due
from telemetry_app.models import AlertChannel, AlertDelivery, AlertMute, AlertRule, HeartbeatPing, Incident, Run
from tests.support.receivers import HttpReceiver
from tests.support.records import RUN

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_client")]
BASE = "/admin/telemetry_app"
SECRET_URL = "https://hooks.example/T0/B1/very-secret"


def text_of(client: Client, path: str) -> str:
    """Return a page's text without tags, each space once."""
    answer = client.get(path)
    assert answer.status_code == 200
    return words(answer.content.decode())


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


@pytest.fixture
def viewer() -> Client:
    """A person who may only look."""
    user = get_user_model().objects.create_user("viewer", is_staff=True)
    user.groups.add(Group.objects.get(name="viewer"))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def operator() -> Client:
    user = get_user_model().objects.create_user("operator", is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def receiver(settings: Any) -> Any:
    settings.TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES = True
    server = HttpReceiver()
    yield server
    server.stop()


@pytest.fixture
def channel() -> AlertChannel:
    return AlertChannel.objects.create(name="chat", kind="slack", url=SECRET_URL)


def incident(code: str = "failing", *, hours: float = 1.0, ended: float | None = 0.5, run_id: str = RUN) -> Incident:
    """Store an incident that began, and perhaps ended, so many hours ago."""
    now = timezone.now()
    ended_at = None if ended is None else now - timedelta(hours=ended)
    started_at = now - timedelta(hours=hours)
    return Incident.objects.create(
        run_id=run_id, code=code, cause=f"why {run_id}", started_at=started_at, ended_at=ended_at,
        last_held_at=ended_at or now, changed_at=ended_at or started_at,
    )  # fmt: skip


# --- Rules ----------------------------------------------------------------------------------------------------
def test_without_rules_the_page_says_how_to_begin(admin_client: Client) -> None:
    shown = text_of(admin_client, f"{BASE}/alertrule/")
    assert "No rules yet: nobody is told of anything" in shown
    assert "Add a channel" in shown


def form_of(channel: AlertChannel, **fields: Any) -> dict[str, Any]:
    form = {"name": "Nights", "is_enabled": "on", "codes": ["failing"], "after_seconds": "60", "channels": [channel.pk]}
    return {**form, **fields}


def test_a_dry_run_says_what_a_rule_would_have_sent_and_saves_nothing(
    admin_client: Client, channel: AlertChannel
) -> None:
    for number in range(3):
        incident(run_id=f"run-{number}")
    incident("lost", run_id="of another state")
    incident(hours=1, ended=0.999, run_id="too short")
    incident(hours=200, ended=199, run_id="too long ago")
    answer = admin_client.post(f"{BASE}/alertrule/add/", form_of(channel, _try="1"))
    shown = words(answer.content.decode())
    assert "Within the last 7 days it would have sent 3" in shown
    assert "why run-2" in shown
    assert not any(f"why {words}" in shown for words in ("of another state", "too short", "too long ago"))
    assert "correct the error" not in shown
    assert 'value="Nights"' in answer.content.decode()
    assert not AlertRule.objects.exists()


def test_a_dry_run_lists_twenty_and_counts_all(admin_client: Client, channel: AlertChannel) -> None:
    for number in range(30):
        incident(run_id=f"run-{number}")
    shown = words(admin_client.post(f"{BASE}/alertrule/add/", form_of(channel, _try="1")).content.decode())
    assert "would have sent 30" in shown
    assert shown.count("why run-") == 20


def test_a_rule_is_tried_before_there_is_a_channel_and_not_saved_without(admin_client: Client) -> None:
    incident()
    form = {"name": "Nights", "is_enabled": "on", "codes": ["failing"], "after_seconds": "0"}
    shown = words(admin_client.post(f"{BASE}/alertrule/add/", {**form, "_try": "1"}).content.decode())
    assert "would have sent 1" in shown
    assert "correct the error" not in shown
    assert "correct the error" in words(admin_client.post(f"{BASE}/alertrule/add/", form).content.decode())
    assert not AlertRule.objects.exists()


def test_a_dry_run_of_a_rule_that_can_not_be_is_no_dry_run(admin_client: Client, channel: AlertChannel) -> None:
    answer = admin_client.post(f"{BASE}/alertrule/add/", form_of(channel, after_seconds="-1", _try="1"))
    assert "would have sent" not in words(answer.content.decode())
    assert "greater than or equal to 0" in words(answer.content.decode())


def test_a_dry_run_agrees_with_what_is_sent(admin_client: Client, channel: AlertChannel) -> None:
    Run.objects.create(
        run_id="run-1", first_seen_at=timezone.now(), last_activity_at=timezone.now(), tags=["prod"]
    )  # fmt: skip
    for number in range(3):
        incident(run_id=f"run-{number}", ended=None)
    form = form_of(channel, tag="prod")
    assert "would have sent 1 " in words(
        admin_client.post(f"{BASE}/alertrule/add/", {**form, "_try": "1"}).content.decode()
    )
    assert admin_client.post(f"{BASE}/alertrule/add/", form).status_code == 302
    assert take_notice().starts == 1


def test_a_rule_that_is_stored_shows_what_it_would_have_sent(admin_client: Client, channel: AlertChannel) -> None:
    incident()
    rule = AlertRule.objects.create(name="Nights")
    rule.channels.add(channel)
    assert "would have sent 1 " in text_of(admin_client, f"{BASE}/alertrule/{rule.pk}/change/")
    assert "Nights" in text_of(admin_client, f"{BASE}/alertrule/")


def test_a_rule_needs_a_channel(admin_client: Client, channel: AlertChannel) -> None:
    assert admin_client.post(f"{BASE}/alertrule/add/", form_of(channel, channels=[])).status_code == 200
    assert not AlertRule.objects.exists()


# --- Channels -------------------------------------------------------------------------------------------------
def test_a_webhook_shows_its_secret_once(admin_client: Client) -> None:
    form = {"name": "hook", "kind": "webhook", "url": "https://hook.example/", "is_enabled": "on", "digest_over": "5"}
    made = admin_client.post(f"{BASE}/alertchannel/add/", form)
    channel = AlertChannel.objects.get()
    assert channel.secret.startswith("whsec_")
    assert channel.secret in made.content.decode()
    page = f"{BASE}/alertchannel/{channel.pk}/change/"
    assert channel.secret not in admin_client.get(page).content.decode()
    again = admin_client.post(page, {**form, "_new_secret": "1"})
    assert channel.secret not in again.content.decode()
    assert AlertChannel.objects.get().secret in again.content.decode()


def test_a_test_is_sent_and_its_answer_shown(admin_client: Client, receiver: HttpReceiver) -> None:
    form = {
        "name": "chat",
        "kind": "slack",
        "url": receiver.url,
        "is_enabled": "on",
        "digest_over": "5",
        "_send_test": "1",
    }
    shown = words(admin_client.post(f"{BASE}/alertchannel/add/", form, follow=True).content.decode())
    assert "The test was taken: HTTP 200 ok" in shown
    assert len(receiver.received) == 1
    receiver.mode = 500
    page = f"{BASE}/alertchannel/{AlertChannel.objects.get().pk}/change/"
    shown = words(admin_client.post(page, form, follow=True).content.decode())
    assert "The test was not taken: HTTP 500 ok" in shown
    assert "Test of chat" in shown


def test_e_mail_that_is_not_configured_says_so(admin_client: Client) -> None:
    channel = AlertChannel.objects.create(name="mail", kind="email", recipients="a@example.org")
    assert "sends no e-mail until EMAIL_URL" in text_of(admin_client, f"{BASE}/alertchannel/{channel.pk}/change/")


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"kind": "email", "recipients": ""}, "give 1 to 50"),
        ({"kind": "email", "recipients": "a@example.org, nobody"}, "“nobody” is no e-mail address"),
        ({"kind": "email", "recipients": "a@example.org\r\nBcc: x"}, "“Bcc:” is no e-mail address"),
        ({"kind": "slack", "url": ""}, "must be http"),
        ({"kind": "webhook", "url": "ftp://a.example/"}, "must be http"),
        ({"kind": "webhook", "url": "https://user:pw@a.example/"}, "must be http"),
        ({"kind": "webhook", "url": "https://a.example:99999/"}, "must be http"),
        ({"kind": "webhook", "url": "https://ä.example/"}, "must be http"),
    ],
)
def test_a_channel_that_leads_nowhere_is_refused(admin_client: Client, fields: dict[str, str], rule: str) -> None:
    form = {"name": "x", "is_enabled": "on", "digest_over": "5", **fields}
    assert rule in words(admin_client.post(f"{BASE}/alertchannel/add/", form).content.decode())
    assert not AlertChannel.objects.exists()


def test_who_may_only_look_sees_no_secret_and_sends_nothing(viewer: Client, channel: AlertChannel) -> None:
    AlertRule.objects.create(name="Nights").channels.add(channel)
    for path in (
        f"{BASE}/alertchannel/", f"{BASE}/alertchannel/{channel.pk}/change/", f"{BASE}/alertrule/",
        f"{BASE}/alertmute/",
        f"{BASE}/alertrule/{AlertRule.objects.get().pk}/change/", f"{BASE}/alertdelivery/",
    ):  # fmt: skip
        assert "very-secret" not in viewer.get(path).content.decode()
        assert viewer.get(path).status_code == 200
    assert viewer.post(f"{BASE}/alertchannel/{channel.pk}/change/", {"_send_test": "1"}).status_code == 403
    assert viewer.get(f"{BASE}/alertrule/add/").status_code == 403
    assert not AlertDelivery.objects.exists()


def test_an_operator_may_change_all_of_it(operator: Client, channel: AlertChannel) -> None:
    assert "very-secret" in operator.get(f"{BASE}/alertchannel/{channel.pk}/change/").content.decode()
    assert operator.get(f"{BASE}/alertrule/add/").status_code == 200
    assert operator.get(f"{BASE}/alertmute/add/").status_code == 200


# --- Mutes ----------------------------------------------------------------------------------------------------
def test_a_mute_is_a_link_from_a_run_away(admin_client: Client) -> None:
    Run.objects.create(run_id="run/a&b", first_seen_at=timezone.now(), last_activity_at=timezone.now())
    page = admin_client.get(f"{BASE}/run/run_2Fa_26b/change/").content.decode()
    [link] = re.findall(r'href="([^"]*alertmute/add/[^"]*)"', page)
    form = admin_client.get(link).content.decode()
    assert 'value="run/a&amp;b"' in form
    fields = dict(re.findall(r'name="((?:starts|ends)_at_[01])" value="([^"]*)"', form))
    assert len(fields) == 4
    assert admin_client.post(link, {"run_id": "run/a&b", **fields}).status_code == 302
    mute = AlertMute.objects.get()
    assert mute.ends_at is not None
    assert mute.ends_at - mute.starts_at == timedelta(hours=4)
    assert mute.created_by is not None
    assert "run/a&amp;b" in admin_client.get(f"{BASE}/alertmute/").content.decode()


def test_a_mute_that_ends_before_it_begins_is_refused(admin_client: Client) -> None:
    fields = {"starts_at_0": "2026-05-01", "starts_at_1": "12:00", "ends_at_0": "2026-05-01", "ends_at_1": "11:00"}
    assert "must end after it begins" in words(admin_client.post(f"{BASE}/alertmute/add/", fields).content.decode())


# --- Deliveries -----------------------------------------------------------------------------------------------
@pytest.fixture
def told(receiver: HttpReceiver) -> AlertDelivery:
    """A message that was sent and not answered."""
    receiver.mode = "drop"
    channel = AlertChannel.objects.create(name="chat", kind="slack", url=receiver.url)
    AlertRule.objects.create(name="Nights", after_seconds=0).channels.add(channel)
    incident(ended=None, run_id="<script>alert(1)</script>")
    take_notice()
    send_due()
    return AlertDelivery.objects.get()


def test_a_delivery_shows_what_it_says_and_each_answer(admin_client: Client, told: AlertDelivery) -> None:
    page = admin_client.get(f"{BASE}/alertdelivery/{told.pk}/change/").content.decode()
    assert "<script>alert(1)" not in page
    shown = words(page)
    for text in ("unknown", "no answer came", "why &lt;script&gt;", "Nights", "Nothing sends it again by itself"):
        assert text in shown
    assert "unknown" in text_of(admin_client, f"{BASE}/alertdelivery/")


def test_what_is_unknown_is_sent_again_by_hand_alone(
    admin_client: Client, viewer: Client, told: AlertDelivery, receiver: HttpReceiver
) -> None:
    again = f"{BASE}/alertdelivery/{told.pk}/again/"
    assert viewer.post(again).status_code == 403
    assert admin_client.get(again).status_code == 405
    receiver.mode = 200
    assert "It is queued" in words(admin_client.post(again, follow=True).content.decode())
    send_due()
    told.refresh_from_db()
    assert (told.state, len(receiver.received)) == ("sent", 2)
    assert "It was not queued" in words(admin_client.post(again, follow=True).content.decode())


@pytest.mark.parametrize("key", ["0", "x", "9" * 30, "999"])
def test_a_delivery_that_is_not_there_is_not_found(admin_client: Client, key: str) -> None:
    assert admin_client.get(f"{BASE}/alertdelivery/{key}/change/").status_code == 404


def test_the_heartbeat_stands_with_the_deliveries(admin_client: Client, settings: Any) -> None:
    path = f"{BASE}/alertdelivery/"
    assert "TELEMETRY_HEARTBEAT_URL is not set" in text_of(admin_client, path)
    settings.TELEMETRY_HEARTBEAT_URL = "https://beat.example/secret-path"
    assert "no ping yet" in text_of(admin_client, path)
    now = timezone.now()
    HeartbeatPing.objects.create(looked_at=now, pinged_at=now, taken_at=now, is_well=True, detail="HTTP 200 OK")
    assert "Heartbeat: taken, HTTP 200 OK" in text_of(admin_client, path)
    HeartbeatPing.objects.update(looked_at=now - timedelta(minutes=9))
    assert "nobody looked for long" in text_of(admin_client, path)
    assert "secret-path" not in admin_client.get(path).content.decode()


@pytest.mark.parametrize("name", ["alertrule", "alertchannel", "alertmute", "alertdelivery"])
def test_lists_cost_as_many_queries_for_many_as_for_one(
    admin_client: Client, name: str, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        channel = AlertChannel.objects.create(name=f"c{number}", kind="slack", url=SECRET_URL)
        rule = AlertRule.objects.create(name=f"r{number}")
        rule.channels.add(channel)
        now = timezone.now()
        AlertMute.objects.create(rule=rule)
        AlertDelivery.objects.create(channel=channel, edge="start", title="t", created_at=now, due_at=now)
    admin_client.get(f"{BASE}/{name}/")
    with django_assert_max_num_queries(14):
        admin_client.get(f"{BASE}/{name}/")


def test_a_channel_keeps_its_kind(admin_client: Client, channel: AlertChannel) -> None:
    form = {"name": "other", "kind": "email", "url": SECRET_URL, "recipients": "a@example.org", "digest_over": "5"}
    assert admin_client.post(f"{BASE}/alertchannel/{channel.pk}/change/", form).status_code == 302
    channel.refresh_from_db()
    assert (channel.name, channel.kind, channel.url) == ("other", "slack", SECRET_URL)
