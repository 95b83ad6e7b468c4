"""What PostgreSQL holds of channels: nothing that signs or opens anything, without the site's key."""

from __future__ import annotations

import importlib

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from telemetry_app.alerts.sending import send_test
from telemetry_app.models import AlertChannel
from telemetry_app.models.sealed import LostText, seal, unseal

pytestmark = pytest.mark.django_db
URL = "https://chat.example/services/T0/B0/known-to-nobody"


@pytest.fixture(autouse=True)
def _first_key(settings):
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the first key", []


@pytest.fixture
def chat():
    return AlertChannel.objects.create(name="chat", kind="slack", url=URL)


def stored() -> list[tuple[str, str]]:
    """Return URLs and secrets as PostgreSQL has them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT url, secret FROM telemetry_app_alertchannel ORDER BY id")
        return cursor.fetchall()


def test_neither_url_nor_secret_stands_in_postgres(webhook, chat):
    for url, secret in stored():
        assert "http" not in url
        assert "whsec" not in secret
    assert [(each.url, each.secret) for each in AlertChannel.objects.order_by("id")] == [
        (webhook.url, webhook.secret),
        (URL, ""),
    ]


def test_the_longest_url_has_room(chat):
    chat.url = "https://chat.example/" + "x" * 1_979
    chat.full_clean()
    chat.save()
    assert AlertChannel.objects.get().url == chat.url


def test_a_key_of_before_opens_what_it_sealed_until_all_is_sealed_anew(chat, settings, capsys):
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the second key", ["the first key"]
    assert AlertChannel.objects.get().url == URL
    call_command("reseal")
    assert "1 channels are sealed" in capsys.readouterr().out
    settings.SECRET_KEY_FALLBACKS = []
    assert AlertChannel.objects.get().url == URL


def test_a_channel_whose_key_is_lost_sends_nothing_unsigned_and_says_why(webhook, receiver, settings):
    settings.SECRET_KEY = "another key"
    channel = AlertChannel.objects.get()
    assert channel.destination == "sealed with another SECRET_KEY than the site has"
    test = send_test(channel)
    assert (test.state, receiver.received) == ("failed", [])
    assert "sealed with another SECRET_KEY" in test.answer


def test_what_a_lost_key_sealed_is_kept_until_the_key_is_found(webhook, settings):
    settings.SECRET_KEY = "another key"
    AlertChannel.objects.get().save()
    with pytest.raises(CommandError, match="hook"):
        call_command("reseal")
    settings.SECRET_KEY = "the first key"
    assert AlertChannel.objects.get().secret == webhook.secret


def test_the_same_text_is_sealed_otherwise_each_time_and_nothing_stays_nothing():
    assert seal(URL) != seal(URL)
    assert unseal(seal(URL)) == URL
    assert (seal(""), unseal("")) == ("", "")
    assert isinstance(unseal("no token"), LostText)


def test_the_migration_seals_what_stood_in_the_clear_and_opens_it_again(chat):
    migration = importlib.import_module("telemetry_app.migrations.0021_seal_channels").Migration
    [step] = [each for each in migration.operations if hasattr(each, "code")]
    with connection.schema_editor() as editor:
        plain = AlertChannel.objects.filter(pk=chat.pk)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE telemetry_app_alertchannel SET url = %s", [URL])
        state = _before(migration)
        step.code(state, editor)
        assert "http" not in stored()[0][0]
        assert plain.get().url == URL
        step.reverse_code(state, editor)
        assert stored() == [(URL, "")]


def _before(migration):
    """Return the models as the migration's own step sees them: with plain texts."""
    state = MigrationLoader(connection).project_state([("telemetry_app", "0020_open_request_indexes")])
    for operation in migration.operations[:2]:
        operation.state_forwards("telemetry_app", state)
    return state.apps
