"""Messages through real HTTP and mail servers that fail, hang, come back; and what restarts and kills leave behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from telemetry_app.alerts import email, sending
from telemetry_app.alerts.notices import take_notice
from telemetry_app.alerts.outcomes import MOST_ATTEMPTS
from telemetry_app.alerts.sending import send_again, send_due, send_test
from telemetry_app.models import AlertDelivery
from tests.support.receivers import DEADLINE_SECONDS
from tests.support.snapshots import all_at_once
from tests.telemetry_app.alerts.conftest import end

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_client")]


@pytest.fixture
def tell(make_rule, make_incident):
    """A function that has a new incident told through channels."""

    def tell(*channels, code="failing"):
        make_rule(*channels, name=code, codes=[code])
        incident = make_incident(code, at=timezone.now())
        take_notice()
        return incident

    return tell


def delivery(**wanted):
    return AlertDelivery.objects.get(**wanted)


def make_due():
    """Let the time until the next attempt pass."""
    AlertDelivery.objects.filter(state="queued").update(due_at=timezone.now() - timedelta(seconds=1))


# --- A clock that is set back ---------------------------------------------------------------------------------
def test_a_clock_that_was_set_back_holds_up_neither_single_messages_nor_retries(webhook, receiver, tell):
    tell(webhook)
    later = timezone.now() + timedelta(hours=3)
    AlertDelivery.objects.update(due_at=later, created_at=later)
    assert send_due().sent == 1
    webhook.digest_over = 1
    webhook.save()
    AlertDelivery.objects.update(created_at=later)
    tell(webhook, code="stuck")
    assert send_due().sent == 1


# --- A web server ---------------------------------------------------------------------------------------------
def test_a_message_arrives_once_and_its_answer_is_kept(webhook, receiver, tell):
    tell(webhook)
    assert [send_due().sent, send_due().sent] == [1, 0]
    [request] = receiver.received
    assert request.content["event"] == "incident.start"
    assert (delivery().state, delivery().answer) == ("sent", "HTTP 200 ok")


def test_a_start_then_an_end_and_nothing_between(webhook, receiver, tell):
    incident = tell(webhook)
    for _ in range(3):
        send_due()
        take_notice()
    end(incident, timezone.now() - timedelta(seconds=301))
    for _ in range(3):
        take_notice()
        send_due()
    assert [request.content["event"] for request in receiver.received] == ["incident.start", "incident.end"]


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_a_server_that_fails_and_comes_back_gets_it_later_with_the_same_id(webhook, receiver, tell, status):
    receiver.mode = status
    tell(webhook)
    send_due()
    first = delivery()
    assert (first.state, first.attempts_count) == ("queued", 1)
    assert 5 < (first.due_at - timezone.now()).total_seconds() <= 10
    assert send_due().sent == 0
    receiver.mode = 200
    make_due()
    assert send_due().sent == 1
    one, two = receiver.received
    assert one.headers["webhook-id"] == two.headers["webhook-id"]
    assert one.body == two.body
    assert [attempt["outcome"] for attempt in delivery().attempts] == ["failed", "delivered"]


def test_a_server_that_is_gone_and_comes_back_gets_it_later(webhook, receiver, tell):
    receiver.stop()
    tell(webhook)
    send_due()
    assert delivery().state == "queued"
    assert "Not sent: ConnectError" in delivery().answer
    receiver.start()
    make_due()
    send_due()
    assert delivery().state == "sent"
    assert len(receiver.received) == 1


def test_a_server_that_asks_for_a_longer_wait_gets_it(webhook, receiver, tell):
    receiver.mode, receiver.headers = 429, {"Retry-After": "120"}
    tell(webhook)
    send_due()
    assert 115 < (delivery().due_at - timezone.now()).total_seconds() <= 120


@pytest.mark.parametrize("status", [400, 401, 404, 410, 301, 307])
def test_what_can_never_be_taken_is_not_tried_again(webhook, receiver, tell, status):
    receiver.mode, receiver.headers = status, {"Location": receiver.url}
    tell(webhook)
    send_due()
    assert (delivery().state, delivery().answer) == ("failed", f"HTTP {status} ok")
    assert len(receiver.received) == 1  # no redirect is followed


def test_trying_again_ends_some_time(webhook, receiver, tell):
    receiver.mode = 500
    tell(webhook)
    for _ in range(MOST_ATTEMPTS + 2):
        make_due()
        send_due()
    assert (delivery().state, len(receiver.received)) == ("failed", MOST_ATTEMPTS)


@pytest.mark.parametrize("mode", ["hang", "drop", "trickle"])
def test_what_was_sent_and_not_answered_is_unknown_and_never_sent_again_by_itself(webhook, receiver, tell, mode):
    receiver.mode = mode
    tell(webhook)
    started = time.monotonic()
    send_due()
    assert time.monotonic() - started < DEADLINE_SECONDS / 2  # a server that trickles is no way round the time-out
    assert delivery().state == "unknown"
    assert "no answer came" in delivery().answer
    receiver.mode = 200
    make_due()
    send_due()
    assert len(receiver.received) == 1
    assert send_again(delivery())
    send_due()
    assert (delivery().state, len(receiver.received)) == ("sent", 2)
    assert not send_again(delivery())


def test_a_gateway_that_waited_in_vain_leaves_doubt(webhook, receiver, tell):
    receiver.mode = 504
    tell(webhook)
    send_due()
    assert (delivery().state, delivery().answer) == ("unknown", "HTTP 504 ok")


def test_a_channel_that_sends_again_in_doubt_does_so_with_the_same_id(webhook, receiver, tell):
    webhook.sends_again_in_doubt = True
    webhook.save()
    receiver.mode = "hang"
    tell(webhook)
    send_due()
    assert delivery().state == "queued"
    receiver.mode = 200
    make_due()
    send_due()
    assert delivery().state == "sent"
    assert len({request.headers["webhook-id"] for request in receiver.received}) == 1


def test_doubt_stays_doubt_after_the_last_attempt(webhook, receiver, tell):
    webhook.sends_again_in_doubt = True
    webhook.save()
    receiver.mode = "drop"
    tell(webhook)
    for _ in range(MOST_ATTEMPTS + 1):
        make_due()
        send_due()
    assert (delivery().state, len(receiver.received)) == ("unknown", MOST_ATTEMPTS)


def test_a_channel_that_hangs_holds_up_no_other_and_is_asked_once_at_a_time(webhook, slack, receiver, mail, tell):
    mail_before_web = mail
    receiver.mode = "hang"
    for code in ("failing", "lost", "stuck"):
        tell(webhook, mail_before_web, code=code)
    summary = send_due()
    assert (summary.sent, summary.unknown) == (3, 1)
    assert AlertDelivery.objects.filter(channel=webhook, state="queued", due_at__gt=timezone.now()).count() == 2


def test_a_channel_that_was_switched_off_gets_nothing(webhook, receiver, tell):
    tell(webhook)
    webhook.is_enabled = False
    webhook.save()
    send_due()
    assert (delivery().state, receiver.received) == ("failed", [])
    assert "switched off" in delivery().answer


def test_an_error_of_our_own_is_kept_and_stops_no_other_channel(webhook, mail, mail_server, tell, monkeypatch):
    def broken(*arguments, **options):
        raise TypeError("ours")

    monkeypatch.setattr("telemetry_app.alerts.webhook.send", broken)
    tell(webhook, mail)
    send_due()
    assert len(mail_server.received) == 1
    assert "TypeError" in delivery(channel=webhook).answer


def test_a_message_that_can_not_be_written_stops_no_other(webhook, mail, mail_server, tell, monkeypatch):
    original = sending.content_of

    def broken(message, *, now):
        if message.channel == webhook:
            raise TypeError("ours")
        return original(message, now=now)

    monkeypatch.setattr(sending, "content_of", broken)
    tell(webhook, mail)
    send_due()
    assert len(mail_server.received) == 1
    assert (delivery(channel=webhook).state, delivery(channel=webhook).attempts_count) == ("queued", 1)


# --- Restarts and kills ---------------------------------------------------------------------------------------
CHILD = """
import sys
import django
django.setup()
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
settings.TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES = True
from telemetry_app.alerts.sending import send_due
send_due()
"""


@pytest.mark.django_db(transaction=True)
def test_a_process_that_is_killed_while_it_sends_leaves_unknown_and_no_second_message(webhook, receiver, tell):
    receiver.mode = "hang"
    tell(webhook)
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "openrl_site.settings"}
    child = subprocess.Popen([sys.executable, "-c", CHILD, connection.settings_dict["NAME"]], env=environment)
    try:
        assert receiver.arrived.wait(3 * DEADLINE_SECONDS)  # a whole interpreter starts
        assert send_due().was_skipped  # another one sends: nothing of it is taken for left behind
        assert delivery().state == "sending"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(DEADLINE_SECONDS)
    receiver.mode = 200
    assert _once_it_is_free().left_behind == 1
    assert (delivery().state, delivery().answer) == ("unknown", "The site was stopped while it was sent.")
    send_due()
    assert len(receiver.received) == 1


def _once_it_is_free():
    """Send once PostgreSQL noticed that the other process is gone."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        summary = send_due()
        if not summary.was_skipped:
            return summary
        threading.Event().wait(0.05)
    raise AssertionError("the other process still sends")


@pytest.mark.parametrize(("again", "state"), [(False, "unknown"), (True, "sent")])
def test_what_a_kill_left_is_sent_again_only_where_the_channel_says_so(webhook, receiver, tell, again, state):
    webhook.sends_again_in_doubt = again
    webhook.save()
    tell(webhook)
    AlertDelivery.objects.update(state="sending", claimed_at=timezone.now(), attempts_count=1)
    send_due()
    make_due()
    send_due()
    assert (delivery().state, len(receiver.received)) == (state, int(again))


@pytest.mark.django_db(transaction=True)
def test_tasks_at_once_send_once(webhook, receiver, tell):
    for code in ("failing", "lost", "stuck"):
        tell(webhook, code=code)

    def task():
        take_notice()
        send_due()

    assert all_at_once(4, task) == []
    send_due()
    assert len({request.headers["webhook-id"] for request in receiver.received}) == len(receiver.received) == 3


def test_an_answer_that_comes_after_all_is_kept(webhook, receiver, tell, monkeypatch):
    tell(webhook)

    def slow(*arguments, **options):
        AlertDelivery.objects.update(state="unknown")  # as another process does that finds it left behind
        return original(*arguments, **options)

    original = sending._settle
    monkeypatch.setattr(sending, "_settle", slow)
    send_due()
    assert delivery().state == "sent"


# --- A mail server --------------------------------------------------------------------------------------------
def test_mail_goes_to_all_recipients_as_one_message(mail, mail_server, tell):
    tell(mail)
    send_due()
    [message] = mail_server.received
    assert mail_server.recipients == [["a@example.org", "b@example.org"]]
    assert message["subject"] == "[openrl] failing: run-a"
    assert message["from"] == "Telemetry <telemetry@example.org>"
    assert message["message-id"] == f"<alert-{delivery().pk}@example.org>"
    assert message["auto-submitted"] == "auto-generated"
    assert (delivery().state, delivery().answer) == ("sent", "The mail server took it.")


@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA"])
def test_a_mail_server_that_has_no_time_gets_it_later(mail, mail_server, tell, command):
    mail_server.answers[command] = "451 try later"
    tell(mail)
    send_due()
    assert delivery().state == "queued"
    assert "451" in delivery().answer
    mail_server.answers.clear()
    mail_server.received.clear()
    make_due()
    send_due()
    assert (delivery().state, len(mail_server.received)) == ("sent", 1)


@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA"])
def test_a_mail_server_that_refuses_is_not_asked_again(mail, mail_server, tell, command):
    mail_server.answers[command] = "554 no"
    tell(mail)
    send_due()
    assert delivery().state == "failed"
    assert "554 no" in delivery().answer


def test_a_recipient_that_is_refused_is_named_and_the_others_get_it(mail, mail_server, tell):
    mail_server.answers["RCPT b@example.org"] = "550 unknown"
    tell(mail)
    send_due()
    assert mail_server.recipients == [["a@example.org"]]
    assert delivery().state == "sent"
    assert "b@example.org: 550 unknown" in delivery().answer


@pytest.mark.parametrize(("command", "state"), [("MAIL", "queued"), ("RCPT", "queued"), ("DATA", "unknown")])
def test_a_mail_server_that_hangs_leaves_doubt_only_once_the_message_went_out(mail, mail_server, tell, command, state):
    mail_server.answers[command] = "hang"
    tell(mail)
    send_due()
    assert delivery().state == state


@pytest.mark.parametrize("answer", ["hang", "421 busy"])
def test_a_message_that_was_taken_is_sent_though_no_leave_was_taken(mail, mail_server, tell, answer):
    mail_server.answers["QUIT"] = answer
    tell(mail)
    send_due()
    assert (delivery().state, delivery().answer) == ("sent", "The mail server took it.")


def test_a_mail_server_that_is_slow_at_every_word_ends_by_the_time_in_all(mail, mail_server, tell, monkeypatch):
    monkeypatch.setattr(email, "TOTAL_SECONDS", 0.0)
    tell(mail)
    send_due()
    assert delivery().state == "queued"
    assert "in all" in delivery().answer
    assert mail_server.received == []


def test_a_mail_server_whose_word_trickles_ends_by_the_time_in_all(mail, tell, settings, monkeypatch):
    monkeypatch.setattr(email, "TOTAL_SECONDS", 0.5)
    over = threading.Event()

    def trickle(server):
        connection = server.accept()[0]
        with connection, contextlib.suppress(OSError):
            while not over.wait(0.05):
                connection.sendall(b"2")

    with socket.create_server(("127.0.0.1", 0)) as server:
        settings.EMAIL_PORT = server.getsockname()[1]
        thread = threading.Thread(target=trickle, args=(server,))
        thread.start()
        tell(mail)
        started = time.monotonic()
        send_due()
        took = time.monotonic() - started
        over.set()
        thread.join()
    assert took < DEADLINE_SECONDS / 2
    assert delivery().state == "queued"


def test_a_mail_server_that_is_gone_is_asked_again(mail, mail_server, tell):
    mail_server.stop()
    tell(mail)
    send_due()
    assert delivery().state == "queued"
    assert "ConnectionRefusedError" in delivery().answer


def test_without_a_mail_server_a_channel_says_so(mail, settings, tell):
    settings.EMAIL_HOST = ""
    tell(mail)
    send_due()
    assert delivery().state == "failed"
    assert "EMAIL_URL" in delivery().answer


# --- Tests of a channel ---------------------------------------------------------------------------------------
def test_a_test_is_sent_at_once_and_its_answer_kept(webhook, slack, mail, receiver, mail_server):
    assert [send_test(channel).state for channel in (webhook, slack, mail)] == ["sent"] * 3
    assert receiver.received[0].content["event"] == "test"
    assert mail_server.received[0]["subject"] == "[openrl] Test of mail"


def test_a_test_that_fails_says_why_and_is_not_tried_again(webhook, receiver):
    receiver.mode = 500
    failed = send_test(webhook)
    assert (failed.state, failed.answer) == ("failed", "HTTP 500 ok")
    assert not send_again(failed)
    assert send_due().sent == 0
