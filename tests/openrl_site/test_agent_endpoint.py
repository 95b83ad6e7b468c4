"""`/mcp` lets in who the API lets in, as often, and nobody by session."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.test import AsyncClient
from django.utils import timezone

from openrl_site import agent_endpoint
from telemetry_app.api import throttles
from telemetry_app.groups import VIEWER
from telemetry_app.models import ApiToken

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_client")]
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture(autouse=True)
def _own_settings():
    """Let each test's application read that test's settings: middleware reads some of them once."""
    agent_endpoint._application.cache_clear()
    yield
    agent_endpoint._application.cache_clear()


@pytest.fixture
def viewer(django_user_model):
    user = django_user_model.objects.create_user("viewer")
    user.groups.add(Group.objects.get_or_create(name=VIEWER)[0])
    return user


@pytest.fixture
def counted(settings, monkeypatch):
    """Requests are counted in the Redis that each test empties, also right after an outage of the cache."""
    settings.CACHES = {**settings.CACHES, "default": settings.CACHES["telemetry"]}
    monkeypatch.setattr(throttles, "_asked_again_at", 0.0)


def token_of(user):
    return ApiToken.objects.issue(user=user, name="of the tests", last_used_at=timezone.now())[1]


def posted(token=None, client=None, message=LIST, **headers):
    sent = {"Accept": "application/json, text/event-stream", **headers}
    sent |= {"Authorization": f"Bearer {token}"} if token else {}
    ask = async_to_sync((client or AsyncClient()).post)
    return ask("/mcp", json.dumps(message), content_type="application/json", headers=sent)


def test_a_token_s_requests_are_counted(viewer, settings, counted):
    settings.API_TOKEN_REQUESTS_PER_MINUTE = 1
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


def test_tools_work_behind_a_proxy_that_ends_tls(viewer, settings):
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "find_runs", "arguments": {}}}
    answer = posted(token_of(viewer), message=call, **{"X-Forwarded-Proto": "https"})
    result = answer.json()["result"]
    assert not result["isError"]
    assert json.loads(result["content"][0]["text"])["results"] == []


def test_what_a_tool_asks_counts_too(viewer, settings, counted):
    settings.API_TOKEN_REQUESTS_PER_MINUTE = 3
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "runs_in_trouble", "arguments": {}}}
    token = token_of(viewer)
    answers = [posted(token, message=call).json() for _ in range(2)]  # five requests each; a minute may end in between
    assert any("throttled" in json.dumps(answer) for answer in answers), answers
