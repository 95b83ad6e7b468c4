"""Passwords that are tried again and again: one waits, is told how long, and is never kept out."""

from __future__ import annotations

import pytest
import time_machine
from django.contrib.auth import get_user_model
from django.core.cache import cache

from openrl_site import sign_in_throttle as throttle

pytestmark = pytest.mark.django_db
RIGHT = "made-at-first-start"


@pytest.fixture(autouse=True)
def _ana(settings) -> None:
    """A member of the staff, and nothing counted yet."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()
    get_user_model().objects.create_superuser(username="ana", password=RIGHT)


@pytest.fixture
def clock():
    """A clock that stands, and is moved on by hand."""
    with time_machine.travel(1_779_264_000, tick=False) as moved:
        yield moved


@pytest.fixture
def sign_in(client):
    """A function that tries a password, from an address, and returns the answer."""

    def post(password, *, username="ana", address="10.0.0.1", **extra):
        form = {"username": username, "password": password}
        return client.post("/admin/login/", form, REMOTE_ADDR=address, **extra)

    return post


def fail(sign_in, count, **of):
    return [sign_in("wrong", **of).status_code for _ in range(count)]


def test_a_few_failures_cost_nothing(sign_in, clock):
    assert fail(sign_in, 4) == [200] * 4
    assert sign_in(RIGHT).status_code == 302


def test_whoever_fails_too_often_is_told_how_long_to_wait(sign_in, clock):
    assert fail(sign_in, 6) == [200, 200, 200, 200, 200, 429]
    answer = sign_in(RIGHT)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    assert "Try again in 1 second." in answer.content.decode()


def test_the_wait_doubles_and_ends(sign_in, clock):
    waits = []
    for _ in range(13):
        fail(sign_in, 1)
        waits.append(int(sign_in("wrong").headers.get("Retry-After", 0)) if len(waits) >= 4 else 0)
        clock.shift(waits[-1])
    assert waits == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert sign_in(RIGHT).status_code == 302


def test_what_comes_while_one_waits_makes_it_no_longer(sign_in, clock):
    fail(sign_in, 5)
    assert fail(sign_in, 50) == [429] * 50
    clock.shift(1)
    assert sign_in(RIGHT).status_code == 302


def test_a_right_password_forgets_the_failures_there(sign_in, clock):
    fail(sign_in, 4)
    sign_in(RIGHT)
    assert fail(sign_in, 4) == [200] * 4


def test_failures_elsewhere_hold_a_person_up_for_seconds_alone(sign_in, clock):
    for number in range(60):
        fail(sign_in, 1, address=f"10.1.0.{number}")
        clock.shift(5)
    fail(sign_in, 1, address="10.2.0.1")
    answer = sign_in(RIGHT, address="10.0.0.9")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "5")
    clock.shift(5)
    assert sign_in(RIGHT, address="10.0.0.9").status_code == 302


def test_an_address_waits_whichever_names_it_tries(sign_in, clock):
    assert {fail(sign_in, 1, username=f"user-{number}")[0] for number in range(21)} == {200}
    assert fail(sign_in, 1, username="another") == [429]
    assert fail(sign_in, 1, username="another", address="10.0.0.2") == [200]


def test_behind_a_proxy_the_address_is_what_the_proxy_saw(sign_in, clock, settings):
    settings.BEHIND_TLS = True
    for number in range(5):
        fail(sign_in, 1, HTTP_X_FORWARDED_FOR=f"1.2.3.{number}, 10.9.9.9")
    assert fail(sign_in, 1, HTTP_X_FORWARDED_FOR="1.2.3.77, 10.9.9.9") == [429]
    assert fail(sign_in, 1, HTTP_X_FORWARDED_FOR="10.9.9.9, 10.9.9.8") == [200]


def test_while_the_cache_is_out_nobody_waits(sign_in, settings, tmp_path, monkeypatch):
    out = {**settings.CACHES["default"], "LOCATION": f"unix://{tmp_path}/nothing.sock?db=2"}
    settings.CACHES = {**settings.CACHES, "default": out}
    assert fail(sign_in, 7) == [200] * 7
    assert sign_in(RIGHT).status_code == 302


def test_names_and_addresses_do_not_stand_in_the_cache(rf):
    keys = [key for _, key in throttle._keys(rf.get("/", REMOTE_ADDR="10.0.0.1"), "ana")]
    assert len(set(keys)) == 3
    assert not any("ana" in key or "10.0" in key for key in keys)
