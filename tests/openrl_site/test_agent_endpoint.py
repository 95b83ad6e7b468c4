"""`/mcp` lets in who the API lets in, as often, and nobody by session."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.test import AsyncClient
from django.utils import timezone

from telemetry_app.groups import VIEWER
from telemetry_app.models import ApiToken

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_client")]
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture
def viewer(django_user_model):
    user = django_user_model.objects.create_user("viewer")
    user.groups.add(Group.objects.get_or_create(name=VIEWER)[0])
    return user


def token_of(user):
    return ApiToken.objects.issue(user=user, name="of the tests", last_used_at=timezone.now())[1]


def posted(token=None, client=None):
    headers = {"Accept": "application/json, text/event-stream"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    ask = async_to_sync((client or AsyncClient()).post)
    return ask("/mcp", json.dumps(LIST), content_type="application/json", headers=headers)


def test_a_token_s_requests_are_counted(viewer, settings):
    settings.API_TOKEN_REQUESTS_PER_MINUTE = 1
    settings.CACHES = {**settings.CACHES, "default": settings.CACHES["telemetry"]}
    token = token_of(viewer)
    statuses = {posted(token).status_code for _ in range(4)}  # a minute may end in between
    assert statuses == {200, 429}


def test_who_may_not_read_the_api_gets_no_tools(django_user_model):
    answer = posted(token_of(django_user_model.objects.create_user("stranger")))
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (403, "permission_denied")


def test_a_session_opens_nothing(admin_user):
    client = AsyncClient()
    client.force_login(admin_user)
    assert posted(client=client).status_code == 401


def test_answers_are_kept_by_nobody(viewer):
    answer = posted(token_of(viewer))
    assert answer.headers["Cache-Control"] == "no-store"
    assert len(answer.json()["result"]["tools"]) == 9
