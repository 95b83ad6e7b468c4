"""What messages say in each channel; and that nothing that a worker wrote gets out of its place."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re

import pytest
from django.utils import timezone

from telemetry_app.alerts import wording
from telemetry_app.alerts.email import message_of
from telemetry_app.alerts.notices import take_notice
from telemetry_app.alerts.outcomes import one_line, wait_seconds
from telemetry_app.alerts.sending import send_due
from telemetry_app.alerts.slack import message_of as chat_message
from telemetry_app.models import AlertDelivery
from tests.support.records import RUN, op

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_client")]
HOSTILE = (
    "x" * 256,
    "run\r\nBcc: victim@example.org\r\n\r\nbody",
    "<script>alert(1)</script>",
    "<!channel> <https://evil.example|click> *bold*",
    "@channel @here [click](https://evil.example) ![x][y]",
    "\N{PILE OF POO}\N{ZERO WIDTH JOINER}\N{FAMILY} ü \u202egnp.exe",
    "..//%2F?a=b#c",
)


@pytest.fixture
def told(make_rule, make_incident, make_run):
    """A function that tells channels of an incident and sends."""

    def tell(*channels, run_id=RUN, name="", count=1, **fields):
        make_rule(*channels, name="the rule")
        make_run(run_id, name=name)
        for number in range(count):
            make_incident(run_id=run_id if count == 1 else f"{run_id}-{number}", at=timezone.now(), **fields)
        take_notice()
        send_due()
        assert set(AlertDelivery.objects.values_list("state", flat=True)) == {"sent"}

    return tell


# --- Content --------------------------------------------------------------------------------------------------
def test_a_webhook_holds_incident_evidence_verdict_and_links(webhook, receiver, told, writer):
    now = timezone.now().timestamp()
    writer.operations(*(op(at=now - n, status="failed", error_type="ValueError") for n in (3, 2, 1)))
    told(webhook, name="Nightly")
    content = receiver.received[0].content
    assert content["version"] == 1
    assert (content["event"], content["title"], content["channel"]) == ("incident.start", "failing: Nightly", "hook")
    [incident] = content["incidents"]
    assert (incident["run_id"], incident["run_name"], incident["code"]) == (RUN, "Nightly", "failing")
    assert incident["rule"] == "the rule"
    assert incident["evidence"][0]["record_ids"] == ["w:1", "w:2"]
    admin = "https://telemetry.example/admin/telemetry_app"
    assert incident["link"] == content["link"] == f"{admin}/incident/{incident['id']}/change/"
    assert incident["run_link"] == f"{admin}/run/{RUN}/change/"
    assert content["verdict"]["state"] == "failing"
    assert content["verdict"]["next"]


def test_what_the_verdict_can_not_tell_is_said_and_stops_no_message(webhook, receiver, told, redis_out):
    told(webhook)
    assert receiver.received[0].content["verdict"]  # from history, or why not


def test_a_run_that_is_gone_from_everywhere_is_told_all_the_same(webhook, receiver, make_rule, make_incident):
    make_rule(webhook)
    make_incident(run_id="gone", at=timezone.now())
    take_notice()
    send_due()
    assert "unknown" in receiver.received[0].content["verdict"]


def test_a_digest_lists_some_and_counts_the_others(webhook, receiver, told):
    told(webhook, count=57)
    content = receiver.received[0].content
    assert (content["incidents_count"], len(content["incidents"]), content["more_count"]) == (57, 20, 37)
    assert content["link"] == "https://telemetry.example/admin/telemetry_app/incident/"
    assert wording.paragraphs(content)[0][-1] == "- and 37 more"


def test_without_its_own_url_the_site_says_so(mail, mail_server, told, settings):
    settings.TELEMETRY_SITE_URL = ""
    told(mail)
    assert "TELEMETRY_SITE_URL" in mail_server.received[0].get_content()


def test_the_text_holds_what_a_person_needs(mail, mail_server, told, writer):
    now = timezone.now().timestamp()
    writer.operations(*(op(at=now - n, status="failed", error_type="ValueError") for n in (3, 2, 1)))
    told(mail, name="Nightly")
    text = mail_server.received[0].get_content()
    for words in (
        f"Run: Nightly ({RUN})", "What: failing", " UTC, for 1 min", "[records w:1, w:2; requests q-1]",
        "The run now: failing", "What you can safely do:", "Incident: https://telemetry.example/admin/telemetry_app/incident/",
        f"Run: https://telemetry.example/admin/telemetry_app/run/{RUN}/change/",
    ):  # fmt: skip
        assert words in text


def test_a_message_names_a_state_as_the_pages_do(mail, mail_server, told):
    told(mail, code="waiting_for_gpu")
    [message] = mail_server.received
    assert "waiting for GPU: " in message["subject"]
    assert "What: waiting for GPU" in message.get_content()


# --- Signatures -----------------------------------------------------------------------------------------------
def test_a_signature_is_that_of_the_standard(webhook, receiver, told):
    told(webhook)
    [request] = receiver.received
    key = base64.b64decode(webhook.secret.removeprefix("whsec_"))
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(request.headers["webhook-timestamp"]) - timezone.now().timestamp()) < 60


def test_a_chat_gets_no_signature_and_no_secret(slack, receiver, told):
    told(slack)
    assert not [name for name in receiver.received[0].headers if name.startswith("webhook-")]


# --- Hostile ids ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("run_id", HOSTILE)
def test_hostile_ids_stay_in_their_place_in_mail(mail, mail_server, told, run_id):
    told(mail, run_id=run_id, name=run_id[:200], cause=run_id)
    [message] = mail_server.received
    assert mail_server.recipients == [["a@example.org", "b@example.org"]]
    assert message["bcc"] is None
    assert not set("\r\n") & set(message["subject"])
    assert message.get_content_type() == "text/plain"
    assert not re.search("^Bcc:", message.get_content(), re.MULTILINE)
    assert "\u202e" not in message.get_content()


@pytest.mark.parametrize("run_id", HOSTILE)
def test_hostile_ids_stay_in_their_place_in_a_chat(slack, receiver, told, run_id):
    told(slack, run_id=run_id, name=run_id[:200], cause=run_id)
    message = receiver.received[0].content
    assert not set("<>") & set(message["text"])
    marked = [block["text"]["text"] for block in message["blocks"] if block["text"]["type"] == "mrkdwn"]
    assert len(marked) == 1  # our own links alone
    ours = r"<https://telemetry\.example/admin/telemetry_app/{}/[\x21-\x3b\x3d\x3f-\x7b\x7d]*\|{}>"
    assert re.fullmatch(f"{ours.format('incident', 'Incident')} · {ours.format('run', 'Run')}", marked[0])
    assert not re.search(r"\]\(|\]\[|@\w", message["text"])  # nor does Markdown mention or link anything


@pytest.mark.parametrize("run_id", HOSTILE)
def test_hostile_ids_arrive_as_they_are_in_a_webhook(webhook, receiver, told, run_id):
    told(webhook, run_id=run_id)
    assert receiver.received[0].content["incidents"][0]["run_id"] == run_id
    assert receiver.received[0].body.isascii()


def test_a_chat_message_keeps_the_bounds_of_slack(slack, receiver, told):
    told(slack, run_id="r" * 250, name="n" * 200, count=60, cause="c" * 512)
    message = receiver.received[0].content
    assert len(message["blocks"]) <= 50
    assert len(message["blocks"][0]["text"]["text"]) <= 150
    assert all(0 < len(block["text"]["text"]) <= 3_000 for block in message["blocks"])


def test_texts_without_anything_printable_leave_no_empty_block():
    incident = {
        "run_id": "\x00\r\n", "run_name": "", "code": "lost", "ended_at": None,
        "started_at": "2026-11-30T02:40:12.120Z",
        "for_seconds": 1.0, "reopened_count": 0, "cause": "\n", "evidence": [], "link": "",
    }  # fmt: skip
    content = {"event": "incident.start", "title": "\n", "incidents": [incident], "incidents_count": 1, "more_count": 0,
               "verdict": None, "link": ""}  # fmt: skip
    blocks = chat_message(content)["blocks"]
    assert all(block["text"]["text"].strip() for block in blocks)
    assert message_of(["a@example.org"], content, message_id="a").message()["subject"]


# --- Pure parts -----------------------------------------------------------------------------------------------
def test_waits_double_up_to_a_bound_and_differ_by_jitter():
    assert [wait_seconds(attempt, 0.0) for attempt in (1, 2, 3, 8, 12)] == [10, 20, 40, 900, 900]
    assert wait_seconds(1, 1.0) == 8
    assert wait_seconds(1, 0.0, 60.0) == 60
    assert wait_seconds(1, 0.0, 1e9) == 900


def test_one_line_is_one_line_of_a_length():
    assert one_line("a\r\n b\x00\x1b[0m\u2028c\u202ed") == "a b [0m cd"
    assert one_line("x" * 500, 10) == "xxxxxxxxx…"
    assert json.dumps(one_line("\ud800", 10))
