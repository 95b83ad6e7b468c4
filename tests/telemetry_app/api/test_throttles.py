"""How many requests one caller may make in a minute, and that an outage of the cache holds up nobody."""

from __future__ import annotations

import socket

import pytest
import time_machine
from django.contrib.auth.models import Group
from django_redis import get_redis_connection

from telemetry_app.api import throttles
from telemetry_app.models import ApiToken
from tests.telemetry_app.api.conftest import BASE

pytestmark = pytest.mark.django_db
MINUTE = 1_900_000_020  # a whole one


@pytest.fixture(autouse=True)
def _counting(settings, monkeypatch):
    """Three requests a minute by token, two by session, counted from none."""
    settings.API_TOKEN_REQUESTS_PER_MINUTE, settings.API_SESSION_REQUESTS_PER_MINUTE = 3, 2
    monkeypatch.setattr(throttles, "_asked_again_at", 0.0)
    get_redis_connection("default").flushdb()


@pytest.fixture
def clock():
    """The time by the clock, which a test moves."""
    with time_machine.travel(MINUTE + 15.5, tick=False) as traveller:
        yield traveller


def answer_to(client, token):
    return client.get(f"{BASE}/nothing", headers={"Authorization": f"Token {token}"})


def statuses(client, token, count):
    return [answer_to(client, token).status_code for _ in range(count)]


def test_a_token_that_asks_too_often_is_told_when_to_come_back(client, token, clock):
    assert statuses(client, token, 3) == [404] * 3
    refused = answer_to(client, token)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "45")
    assert refused.json()["type"] == "client_error"
    assert refused.json()["errors"][0]["code"] == "throttled"
    clock.move_to(MINUTE + 60)
    assert statuses(client, token, 1) == [404]


def test_the_wait_is_never_nothing(client, token, clock):
    clock.move_to(MINUTE + 59.999)
    assert statuses(client, token, 4)[-1] == 429
    assert answer_to(client, token).headers["Retry-After"] == "1"


def test_tokens_of_one_user_are_counted_apart(client, token, clock):
    other = ApiToken.objects.issue(user=ApiToken.objects.get().user, name="other")[1]
    assert statuses(client, token, 4) == [404, 404, 404, 429]
    assert statuses(client, other, 1) == [404]


def test_sessions_have_a_limit_of_their_own(client, django_user_model, clock):
    user = django_user_model.objects.create_user("vera")
    user.groups.add(Group.objects.get(name="viewer"))
    client.force_login(user)
    assert [client.get(f"{BASE}/nothing").status_code for _ in range(3)] == [404, 404, 429]


def test_nought_is_without_limit(client, token, clock, settings):
    settings.API_TOKEN_REQUESTS_PER_MINUTE = 0
    assert statuses(client, token, 5) == [404] * 5
    assert get_redis_connection("default").dbsize() == 0


def test_counts_leave_the_cache(client, token, clock):
    answer_to(client, token)
    cache = get_redis_connection("default")
    [key] = cache.keys("requests:*")
    assert 0 < cache.ttl(key) <= 2 * throttles.WINDOW_SECONDS


@pytest.fixture
def point_cache_at(settings):
    """A function that makes the site use another cache."""

    def point(url):
        default = settings.CACHES["default"]
        options = {**default["OPTIONS"], "SOCKET_CONNECT_TIMEOUT": 0.1, "SOCKET_TIMEOUT": 0.1}
        settings.CACHES = {**settings.CACHES, "default": {**default, "LOCATION": url, "OPTIONS": options}}

    return point


def test_a_cache_that_refuses_holds_up_nobody(client, token, tmp_path, point_cache_at):
    point_cache_at(f"unix://{tmp_path}/nothing.sock?db=0")
    assert statuses(client, token, 6) == [404] * 6


def test_a_silent_cache_is_waited_for_once(client, token, point_cache_at):
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        point_cache_at(f"redis://127.0.0.1:{listener.getsockname()[1]}/0")
        assert statuses(client, token, 6) == [404] * 6
        listener.settimeout(0.1)
        listener.accept()[0].close()
        with pytest.raises(TimeoutError):
            listener.accept()


def test_a_cache_that_came_back_counts_again(client, token, tmp_path, point_cache_at, settings, monkeypatch, clock):
    working = settings.CACHES["default"]["LOCATION"]
    point_cache_at(f"unix://{tmp_path}/nothing.sock?db=0")
    statuses(client, token, 2)
    point_cache_at(working)
    monkeypatch.setattr(throttles, "_asked_again_at", 0.0)
    assert statuses(client, token, 4) == [404, 404, 404, 429]
