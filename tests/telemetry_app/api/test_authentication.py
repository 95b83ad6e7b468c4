"""Who may read: a signed-in person or a token, under either of its two words."""

from __future__ import annotations

import json
from datetime import timedelta

import psycopg
import pytest
from django.contrib.auth.models import Group, Permission
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.utils import timezone

from telemetry_app.api import authentication
from telemetry_app.models import ApiToken
from tests.telemetry_app.api.conftest import BASE

pytestmark = pytest.mark.django_db
PATHS = [
    "/runs", "/runs/run-a", "/runs/run-a/steps", "/runs/run-a/operations", "/runs/run-a/failures", "/failures",
    "/workers", "/workers/worker-1",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_told_without_sign_in(client, writer, path):
    response = client.get(BASE + path)
    assert response.status_code == 401
    assert json.loads(response.content)["errors"][0]["code"] == "not_authenticated"
    assert response.headers["WWW-Authenticate"] == "Token"


@pytest.mark.parametrize("word", ["Token", "Bearer", "bearer", "token"])
def test_a_token_is_taken_under_either_word(client, writer, token, word):
    assert client.get(f"{BASE}/runs", headers={"Authorization": f"{word} {token}"}).status_code == 200


def test_a_session_is_taken(client, writer, token, django_user_model):
    client.force_login(django_user_model.objects.get(username="reader"))
    assert client.get(f"{BASE}/runs").status_code == 200


@pytest.mark.parametrize(
    "header", ["Token wrong", "Bearer wrong", "Token", "Bearer", "Bearer a b", "Basic cmVhZGVyOng=", "", "Token \x80"]
)
def test_any_other_header_is_refused(client, writer, token, header):
    assert client.get(f"{BASE}/runs", headers={"Authorization": header}).status_code == 401


def test_the_token_of_a_user_who_is_inactive_is_refused(client, writer, token, django_user_model):
    django_user_model.objects.update(is_active=False)
    assert client.get(f"{BASE}/runs", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_a_wrong_word_of_one_request_changes_no_other(client, writer, token):
    client.get(f"{BASE}/runs", headers={"Authorization": f"Bearer {token}"})
    assert client.get(f"{BASE}/runs", headers={"Authorization": f"Token {token}"}).status_code == 200


# --- The life of a token --------------------------------------------------------------------------------------
def status_of(client, key):
    return client.get(f"{BASE}/runs", headers={"Authorization": f"Bearer {key}"}).status_code


def test_a_token_that_was_revoked_opens_nothing(client, writer, token):
    assert status_of(client, token) == 200
    ApiToken.objects.get().revoke()
    assert status_of(client, token) == 401


@pytest.mark.parametrize(("seconds", "status"), [(60, 200), (-1, 401)])
def test_a_token_opens_nothing_past_its_end(client, writer, token, seconds, status):
    ApiToken.objects.update(expires_at=timezone.now() + timedelta(seconds=seconds))
    assert status_of(client, token) == status


def test_what_is_kept_of_a_token_opens_nothing(client, writer, token):
    kept = ApiToken.objects.get()
    assert token not in str(vars(kept))
    assert {status_of(client, key) for key in (kept.digest, kept.prefix, token[:-1], token + "x")} == {401}


def test_a_use_is_written_down_once_a_minute(client, writer, token):
    for seconds, is_written in ((59, False), (61, True)):
        used_at = timezone.now() - timedelta(seconds=seconds)
        ApiToken.objects.update(last_used_at=used_at)
        status_of(client, token)
        assert (ApiToken.objects.get().last_used_at > used_at) is is_written


def test_a_first_use_is_written_down(client, writer, token):
    ApiToken.objects.update(last_used_at=None)
    status_of(client, token)
    assert ApiToken.objects.get().last_used_at is not None


@pytest.mark.parametrize("error", [OperationalError, InterfaceError, DatabaseError])
def test_a_use_that_can_not_be_written_down_stops_no_request(client, writer, token, monkeypatch, error):
    def fail(*_arguments, **_fields):
        raise error("cannot execute UPDATE in a read-only transaction")

    ApiToken.objects.update(last_used_at=None)
    monkeypatch.setattr("telemetry_app.models.ApiToken.objects.select_for_update", fail)
    assert status_of(client, token) == 200


@pytest.mark.django_db(transaction=True)
def test_a_use_does_not_wait_for_who_has_the_row(client, writer, token):
    ApiToken.objects.update(last_used_at=None)
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SELECT 1 FROM telemetry_app_apitoken FOR UPDATE")
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '200ms'")
        assert status_of(client, token) == 200
    assert ApiToken.objects.get().last_used_at is None


def test_with_postgres_out_a_token_that_was_just_used_goes_on_to_work(client, writer, token, monkeypatch):
    assert status_of(client, token) == 200
    monkeypatch.setattr(authentication, "_stored", refused)
    assert (status_of(client, token), status_of(client, f"{token}x")) == (200, 503)
    monkeypatch.setattr(authentication, "REMEMBERED_SECONDS", -1)
    assert status_of(client, token) == 503


def test_a_token_that_was_revoked_is_not_remembered(client, writer, token, monkeypatch):
    status_of(client, token)
    ApiToken.objects.get().revoke()
    status_of(client, token)
    monkeypatch.setattr(authentication, "_stored", refused)
    assert status_of(client, token) == 503


def refused(_digest):
    raise OperationalError("connection refused")


# --- Who may read ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fields", "group", "permission", "status"),
    [
        ({}, None, None, 403),
        ({}, "viewer", None, 200),
        ({}, "operator", None, 200),
        ({}, None, "view_run", 200),
        ({}, None, "view_worker", 403),
        ({"is_staff": True}, None, None, 200),
        ({"is_superuser": True}, None, None, 200),
        ({"is_superuser": True, "is_active": False}, None, None, 401),
    ],
)
@pytest.mark.parametrize("way", ["token", "session"])
def test_groups_permissions_and_staff_may_read(
    client, writer, django_user_model, way, fields, group, permission, status
):
    user = django_user_model.objects.create_user("somebody", **fields)
    user.groups.set(Group.objects.filter(name=group))
    user.user_permissions.set(Permission.objects.filter(codename=permission))
    headers = {}
    if way == "token":
        headers["Authorization"] = f"Token {ApiToken.objects.issue(user=user, name='t')[1]}"
    else:
        client.force_login(user)
    assert client.get(f"{BASE}/runs", headers=headers).status_code == status


def test_a_read_by_token_takes_one_query_for_sign_in(client, writer, token, django_assert_num_queries):
    with django_assert_num_queries(1):
        assert status_of_nothing(client, token) == 404


def status_of_nothing(client, key):
    return client.get(f"{BASE}/no-such-endpoint", headers={"Authorization": f"Token {key}"}).status_code


# --- Nothing but reading --------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_nothing_can_be_changed(client, writer, token, path, method):
    headers = {"Authorization": f"Token {token}"}
    response = getattr(client, method)(BASE + path, "{}", content_type="application/json", headers=headers)
    assert response.status_code == 405
    assert json.loads(response.content)["errors"][0]["code"] == "method_not_allowed"


def test_a_head_request_tells_the_headers_alone(client, writer, token):
    response = client.head(f"{BASE}/runs", headers={"Authorization": f"Token {token}"})
    assert (response.status_code, response.content) == (200, b"")
