"""Who may read: a signed-in person or a token, under either of its two words."""

from __future__ import annotations

import json

import pytest

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


def test_a_session_is_taken(client, writer, django_user_model):
    client.force_login(django_user_model.objects.create_user("reader"))
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
