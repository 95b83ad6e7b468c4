"""`manage.py token`, and the tokens of earlier versions."""

from __future__ import annotations

import importlib
import io
import json
from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from telemetry_app.groups import VIEWER, create_machine, machines
from telemetry_app.models import ApiToken
from telemetry_app.models.access import digest_of

pytestmark = pytest.mark.django_db


def said(*arguments):
    out = io.StringIO()
    call_command("token", *arguments, stdout=out)
    return out.getvalue()


def made(*arguments):
    return json.loads(said("create", *arguments, "--json"))


def test_a_token_is_made_with_a_machine_of_its_name():
    answer = made("night-watch")
    assert list(answer) == [
        "id", "name", "user", "prefix", "status", "created_at", "expires_at", "revoked_at", "last_used_at", "token",
    ]  # fmt: skip
    assert (answer["name"], answer["user"], answer["status"]) == ("night-watch", "night-watch", "active")
    assert machines().get().groups.get().name == VIEWER
    assert ApiToken.objects.get().digest == digest_of(answer["token"])
    assert answer["token"].startswith(answer["prefix"])


def test_tokens_are_told_by_the_command_this_once():
    key = said("create", "night-watch").splitlines()[-1]
    assert digest_of(key) == ApiToken.objects.get().digest
    assert key not in said("list", "--all")
    assert key not in said("list", "--json")


def test_each_token_is_another_one():
    assert len({made("night-watch", "--machine", "m")["token"] for _ in range(5)}) == 5
    assert machines().count() == 1


def test_a_token_is_made_for_a_person(django_user_model):
    django_user_model.objects.create_user("ada", password="secret")
    assert made("notebook", "--user", "ada")["user"] == "ada"


def test_a_token_ends_after_so_many_days():
    made("short", "--days", "7")
    left = ApiToken.objects.get().expires_at - timezone.now()
    assert timedelta(days=6, hours=23) < left <= timedelta(days=7)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["x", "--user", "nobody"], "There is no active user 'nobody'."),
        (["x", "--machine", "person"], "'person' can't be a machine"),
        (["two words"], "'two words' can't be a machine"),
        (["", "--machine", "m"], "1 to 100 printable characters"),
        (["a\nb", "--machine", "m"], "1 to 100 printable characters"),
        (["x", "--days", "0"], "--days must be from 1 to"),
    ],
)
def test_what_can_not_be_meant_is_refused_and_makes_nothing(django_user_model, arguments, why):
    django_user_model.objects.create_user("person", password="secret")
    with pytest.raises(CommandError, match=why):
        said("create", *arguments)
    assert (ApiToken.objects.count(), machines().count()) == (0, 0)


def test_tokens_are_listed_with_what_they_are_for_and_those_that_are_over_when_asked():
    made("one")
    over, _ = ApiToken.objects.issue(
        user=create_machine("two"), name="two", expires_at=timezone.now() - timedelta(days=1)
    )
    assert [token["name"] for token in json.loads(said("list", "--json"))] == ["one"]
    lines = said("list", "--all").splitlines()
    assert f"{over.prefix}  expired  two  never used  two" in lines
    assert lines[-1] == "2 tokens."


@pytest.mark.parametrize("by", ["prefix", "id"])
def test_a_token_is_revoked_once(by):
    word = str(made("night-watch")[by])
    assert "opens nothing from now on" in said("revoke", word)
    assert ApiToken.objects.get().status == "revoked"
    with pytest.raises(CommandError, match="was revoked before"):
        said("revoke", word)
    assert not ApiToken.objects.active().exists()


def test_revoking_needs_one_token_that_is_meant():
    machine = create_machine("m")
    for key in ("orl_aaaaaa1", "orl_aaaaaa2"):
        ApiToken.objects.issue(key, user=machine, name="n")
    for word, why in (("nothing", "No token begins"), ("orl_aaaaaa", "Several tokens begin"), ("9" * 30, "No token")):
        with pytest.raises(CommandError, match=why):
            said("revoke", word)
    assert ApiToken.objects.active().count() == 2


# --- Tokens of earlier versions -------------------------------------------------------------------------------
def test_old_tokens_go_on_to_work_and_can_not_be_read_any_more(django_user_model):
    user = django_user_model.objects.create_user("reader")
    key, made_at = "0123456789abcdef" * 2 + "01234567", timezone.now() - timedelta(days=50)
    kind = ContentType.objects.create(app_label="authtoken", model="token")
    Permission.objects.create(content_type=kind, codename="add_token", name="Can add Token")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE authtoken_token (key text PRIMARY KEY, created timestamptz, user_id int)")
        cursor.execute("INSERT INTO authtoken_token VALUES (%s, %s, %s)", [key, made_at, user.pk])
    migration = importlib.import_module("telemetry_app.migrations.0008_take_over_tokens")
    for _ in range(2):
        with connection.schema_editor(atomic=False) as editor:
            migration.take_over(apps, editor)
    token = ApiToken.objects.active().get()
    assert (token.digest, token.prefix, token.user, token.created_at) == (digest_of(key), "01234567", user, made_at)
    assert "authtoken_token" not in connection.introspection.table_names()
    assert not Permission.objects.filter(content_type__app_label="authtoken").exists()
