"""Settings that lead outside: what is taken, and what stops the start without telling a secret."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from openrl_site.outside_urls import MailServer, checked_outside_url, checked_sender, mail_server


def test_without_a_url_there_is_no_mail_server():
    assert mail_server("", name="EMAIL_URL").host == ""


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp://mail.example", MailServer("mail.example", 25)),
        ("smtp+tls://me%40a:p%2Fw@mail.example", MailServer("mail.example", 587, "me@a", "p/w", starts_tls=True)),
        ("smtps://mail.example:4465", MailServer("mail.example", 4465, is_tls=True)),
    ],
)
def test_a_mail_server_is_read_with_its_usual_port(url, expected):
    assert mail_server(url, name="EMAIL_URL") == expected


@pytest.mark.parametrize("url", ["mail.example", "http://a:secret@mail.example", "smtp://a:secret@", "smtp://h:x"])
def test_another_mail_server_is_refused_by_name_without_its_password(url):
    with pytest.raises(ImproperlyConfigured, match="EMAIL_URL must be smtp://") as error:
        mail_server(url, name="EMAIL_URL")
    assert "secret" not in str(error.value)


def test_a_sender_is_an_address_and_needed_with_a_mail_server():
    assert checked_sender("A site <a@example.org>", is_needed=True, name="EMAIL_FROM") == "A site <a@example.org>"
    assert checked_sender("", is_needed=False, name="EMAIL_FROM") == ""
    for sender in ("", "nobody", "a@example.org\nBcc: b@example.org"):
        with pytest.raises(ImproperlyConfigured, match="EMAIL_FROM="):
            checked_sender(sender, is_needed=True, name="EMAIL_FROM")


@pytest.mark.parametrize("url", ["", "https://beat.example/token", "http://127.0.0.1:8000"])
def test_a_url_of_another_service_is_taken(url):
    assert checked_outside_url(url, name="TELEMETRY_HEARTBEAT_URL") == url


@pytest.mark.parametrize(
    "url", ["beat.example/token", "ftp://beat.example/token", "https:///token", "https://a b/token"]
)
def test_another_one_is_refused_by_name_and_not_told(url):
    with pytest.raises(ImproperlyConfigured, match="TELEMETRY_HEARTBEAT_URL must start with") as error:
        checked_outside_url(url, name="TELEMETRY_HEARTBEAT_URL")
    assert "token" not in str(error.value)
