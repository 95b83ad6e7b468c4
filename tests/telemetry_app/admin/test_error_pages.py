"""What stands in place of a page: that there is none, that it is not allowed, that it can't be made."""

from __future__ import annotations

import pytest
import redis
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection, transaction
from django.test import Client

from telemetry_app.inspection.sources import history

pytestmark = pytest.mark.django_db


def test_a_page_of_a_run_that_is_not_there_names_it(admin_client: Client, redis_client: redis.Redis) -> None:
    answer = admin_client.get("/admin/telemetry_app/run/_3Cb_3Enobody/change/")
    assert answer.status_code == 404
    shown = answer.content.decode()
    assert "There is no run" in shown
    assert "&lt;b&gt;nobody" in shown


def test_who_may_not_see_a_page_is_told_so(client: Client) -> None:
    client.force_login(get_user_model().objects.create_user("nobody-yet", is_staff=True))
    answer = client.get("/admin/telemetry_app/execution/upkeep/")
    assert answer.status_code == 403
    assert "Your user may not do this" in answer.content.decode()


def test_a_page_that_fails_says_where_to_look(
    client: Client, monkeypatch: pytest.MonkeyPatch, admin_user: object
) -> None:
    client.force_login(get_user_model().objects.get())
    client.raise_request_exception = False
    monkeypatch.setattr("telemetry_app.admin.upkeep.policy_lines", lambda now: 1 / 0)
    answer = client.get("/admin/telemetry_app/execution/upkeep/")
    assert answer.status_code == 500
    assert "/readyz" in answer.content.decode()


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_page_for_which_postgres_takes_too_long_says_so_and_not_that_it_is_out(
    client: Client, monkeypatch: pytest.MonkeyPatch, admin_user: object, is_inside: bool
) -> None:
    def sleep() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 50")
            cursor.execute("SELECT pg_sleep(10)")

    def slow(now: object) -> None:
        history(sleep) if is_inside else sleep()

    client.force_login(get_user_model().objects.get())
    client.raise_request_exception = False
    monkeypatch.setattr("telemetry_app.admin.upkeep.policy_lines", slow)
    answer = client.get("/admin/telemetry_app/execution/upkeep/")
    assert answer.status_code == 503
    shown = answer.content.decode()
    assert "PostgreSQL takes too long" in shown
    assert "can't be reached" not in shown
    assert '<meta http-equiv="refresh" content="10">' in shown


def test_a_page_without_postgres_says_so_and_asks_again_by_itself(
    client: Client, monkeypatch: pytest.MonkeyPatch, admin_user: object
) -> None:
    def out(now: object) -> None:
        raise OperationalError("connection refused")

    client.force_login(get_user_model().objects.get())
    client.raise_request_exception = False
    monkeypatch.setattr("telemetry_app.admin.upkeep.policy_lines", out)
    answer = client.get("/admin/telemetry_app/execution/upkeep/")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "10"
    shown = answer.content.decode()
    assert "PostgreSQL can't be reached" in shown
    assert '<meta http-equiv="refresh" content="10">' in shown


@pytest.mark.django_db(transaction=True)
def test_a_locked_table_is_named_soon_with_the_rest_of_the_fleet_page_standing(
    admin_client: Client, redis_client: redis.Redis
) -> None:
    admin_client.raise_request_exception = False
    other = connection.copy()
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = 200")  # as the web server's connections have, only longer
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("LOCK TABLE telemetry_app_run IN ACCESS EXCLUSIVE MODE")
        fleet, runs = admin_client.get("/admin/"), admin_client.get("/admin/telemetry_app/run/")
        gpus = admin_client.get("/admin/telemetry_app/run/gpus/")
    finally:
        other.close()
        connection.close()  # and its lock_timeout with it
    assert fleet.status_code == 200
    assert "PostgreSQL is busy: another session keeps a table locked." in fleet.content.decode()
    assert "This site" in fleet.content.decode()
    assert "No runs yet" not in fleet.content.decode()
    assert gpus.status_code == 200  # it needs no more of runs than their names
    assert runs.status_code == 503
    assert "<h1>PostgreSQL is busy</h1>" in runs.content.decode()
    assert "keeps a table locked" not in admin_client.get("/admin/").content.decode()
