"""Tokens in the admin: made and shown once, revoked, and by whom."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from telemetry_app.groups import create_machine, machines
from telemetry_app.models import ApiToken
from telemetry_app.models.access import digest_of

pytestmark = pytest.mark.django_db
TOKENS = "/admin/telemetry_app/apitoken/"


@pytest.fixture
def operator(django_user_model: Any) -> Client:
    """A browser in which an operator is signed in."""
    user = django_user_model.objects.create_user("olga", password="secret", is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
    client = Client()
    client.force_login(user)
    return client


def shown_key(answer: Any) -> str:
    assert answer.status_code == 200
    found = re.search(r'class="t-key">(orl_[\w-]{43})<', answer.content.decode())
    assert found, "no key is shown"
    return found[1]


def test_a_token_is_shown_once_and_by_no_cookie(admin_client: Client) -> None:
    answer = admin_client.post(f"{TOKENS}add/", {"name": "night watch", "new_machine": "watch"})
    key = shown_key(answer)
    assert "no-store" in answer.headers["Cache-Control"]
    token = ApiToken.objects.get()
    assert (token.digest, token.user) == (digest_of(key), machines().get())
    assert key not in str(admin_client.cookies)
    for path in (TOKENS, f"{TOKENS}{token.pk}/change/", f"{TOKENS}{token.pk}/history/"):
        page = admin_client.get(path)
        assert page.status_code == 200
        assert key not in page.content.decode()
        assert token.digest not in page.content.decode()


def test_names_are_escaped(admin_client: Client) -> None:
    shown = admin_client.post(f"{TOKENS}add/", {"name": "<script>alert(1)", "new_machine": "m"}).content.decode()
    assert "<script>alert(1)" not in shown + admin_client.get(TOKENS).content.decode()


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "n"},
        {"name": "", "new_machine": "m"},
        {"name": "n", "new_machine": "two words"},
        {"name": "n", "new_machine": "admin"},
        {"name": "n", "new_machine": "m", "expires_at_0": "2020-01-01", "expires_at_1": "00:00:00"},
        {"name": "n", "user": "1", "new_machine": "m"},
    ],
)
def test_a_form_that_can_not_be_meant_makes_nothing(admin_client: Client, fields: dict[str, str]) -> None:
    assert admin_client.post(f"{TOKENS}add/", fields).status_code == 200
    assert (ApiToken.objects.count(), machines().count()) == (0, 0)


def test_a_token_is_revoked_in_the_list(admin_client: Client) -> None:
    token, _ = ApiToken.objects.issue(user=create_machine("m"), name="n")
    form = {"action": "revoke", "_selected_action": [token.pk]}
    assert "1 revoked." in admin_client.post(TOKENS, form, follow=True).content.decode()
    token.refresh_from_db()
    assert token.status == "revoked"
    assert "0 revoked." in admin_client.post(TOKENS, form, follow=True).content.decode()


def test_operators_handle_their_own_tokens_and_those_of_machines(operator: Client, django_user_model: Any) -> None:
    users = django_user_model.objects
    others = [users.create_superuser("root", password="secret"), users.create_user("ada", password="secret")]
    for user in others:
        token, _ = ApiToken.objects.issue(user=user, name=f"of {user}")
        assert operator.post(f"{TOKENS}add/", {"name": "n", "user": user.pk}).status_code == 200
        assert operator.get(f"{TOKENS}{token.pk}/change/").status_code == 302  # not found, says the front page
        operator.post(TOKENS, {"action": "revoke", "_selected_action": [token.pk]})
    assert ApiToken.objects.active().count() == len(others)
    assert "of root" not in operator.get(TOKENS).content.decode()
    for user in (users.get(username="olga"), create_machine("m")):
        shown_key(operator.post(f"{TOKENS}add/", {"name": "n", "user": user.pk}))
    mine = ApiToken.objects.get(user__username="olga")
    operator.post(TOKENS, {"action": "revoke", "_selected_action": [mine.pk]})
    mine.refresh_from_db()
    assert mine.status == "revoked"
    assert operator.post(f"{TOKENS}{mine.pk}/delete/", {"post": "yes"}).status_code == 403


def test_viewers_see_runs_and_no_tokens(django_user_model: Any) -> None:
    user = django_user_model.objects.create_user("vera", password="secret", is_staff=True)
    user.groups.add(Group.objects.get(name="viewer"))
    client = Client()
    client.force_login(user)
    assert client.get("/admin/").status_code == 200
    for model in ("run", "worker", "failedoperation", "failedsample", "execution", "retentionpolicy"):
        assert client.get(f"/admin/telemetry_app/{model}/").status_code == 200, model
    assert client.get(TOKENS).status_code == 403
    assert client.post(f"{TOKENS}add/", {"name": "n", "new_machine": "m"}).status_code == 403
    assert client.post("/admin/telemetry_app/retentionpolicy/runs/change/", {"days_to_keep": "1"}).status_code == 403
    assert client.post("/admin/telemetry_app/execution/start/snapshot/").status_code == 403


def test_a_user_can_be_deleted_with_its_tokens(admin_client: Client) -> None:
    machine = create_machine("m")
    ApiToken.objects.issue(user=machine, name="n")
    assert admin_client.post(f"/admin/auth/user/{machine.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not ApiToken.objects.exists()


def test_the_list_takes_as_many_queries_for_many_tokens_as_for_one(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(12):
        ApiToken.objects.issue(user=create_machine(f"m{number}"), name="n")
    admin_client.get(TOKENS)
    with django_assert_max_num_queries(8):
        admin_client.get(TOKENS)
