"""`docs/alerts.md` says what is true: its example checks a real signature, and it names what is sent and read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from telemetry_app.alerts import http
from telemetry_app.alerts.bundles import DIGEST_SECONDS
from telemetry_app.alerts.content import SHOWN_INCIDENTS
from telemetry_app.alerts.outcomes import FIRST_WAIT_SECONDS, MOST_ATTEMPTS, MOST_WAIT_SECONDS
from telemetry_app.alerts.sending import send_test
from telemetry_app.incident_changes import REOPEN_SECONDS
from telemetry_app.models import AlertChannel

PAGE = (Path(__file__).parents[3] / "docs" / "alerts.md").read_text()


@pytest.fixture
def is_authentic():
    """The example of the page."""
    [example] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    names = {}
    exec(example, names)
    return names["is_authentic"]


@pytest.mark.django_db
def test_the_example_takes_what_is_signed_and_nothing_else(webhook, receiver, is_authentic):
    send_test(webhook)
    [request] = receiver.received
    assert is_authentic(webhook.secret, request.headers, request.body)
    assert not is_authentic(webhook.secret, request.headers, request.body + b" ")
    assert not is_authentic("whsec_AAAA", request.headers, request.body)
    old = {**request.headers, "webhook-timestamp": "1"}
    assert not is_authentic(webhook.secret, old, request.body)
    other = {**request.headers, "webhook-id": "alert-1"}
    assert not is_authentic(webhook.secret, other, request.body)


@pytest.mark.django_db
def test_the_page_names_every_field_of_the_body(webhook, receiver, make_rule, make_incident, redis_client):
    from telemetry_app.alerts.notices import take_notice  # after the models
    from telemetry_app.alerts.sending import send_due

    make_rule(webhook)
    make_incident()
    take_notice()
    send_due()
    content = receiver.received[0].content
    quoted = set(re.findall(r"`([^`\n]+)`", PAGE))
    [incident] = content["incidents"]
    assert {*content, *incident, *incident["evidence"][0]} - quoted == set()


def test_the_page_names_the_bounds():
    assert (FIRST_WAIT_SECONDS, MOST_WAIT_SECONDS, MOST_ATTEMPTS) == (10, 900, 12)
    assert "10, 20, 40 … 900 seconds" in PAGE
    assert "12 times in all" in PAGE
    assert (REOPEN_SECONDS, DIGEST_SECONDS, SHOWN_INCIDENTS) == (300, 60, 20)
    for words in ("five minutes after it was seen last", "within a minute, one message lists 20"):
        assert words in " ".join(PAGE.split())
    assert AlertChannel._meta.get_field("digest_over").default == 5
    assert "limit (5)" in PAGE
    assert http.CONNECT_SECONDS < 10
