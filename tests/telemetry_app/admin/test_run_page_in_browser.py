"""The run page as a person has it open: it renders under its policy and brings new steps without a reload."""

from __future__ import annotations

import time

import pytest
import redis
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from workers_client import wire
from workers_client.codec import encode_object

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def put_step(client: redis.Redis, step: int) -> None:
    """Put one finished step of `run-a` into Redis."""
    fields = {
        "id": f"w:{step}", "run_id": "run-a", "operation": "optim_step", "status": "succeeded", "at": time.time(),
        "step": step, "metrics": {"grad_norm:mean": 100.5 + step},
    }  # fmt: skip
    client.rpush(wire.operations_key("run-a"), encode_object(fields))
    client.set(wire.steps_key("run-a"), step + 1)
    client.zadd(wire.RUNS_KEY, {"run-a": time.time()})


def test_a_new_step_appears_in_place(admin_page: Page, live_server: LiveServer, redis_client: redis.Redis) -> None:
    put_step(redis_client, 0)
    admin_page.goto(f"{live_server.url}/admin/telemetry_app/run/run-a/change/")
    expect(admin_page.get_by_text("100.5")).to_be_visible()
    admin_page.evaluate("window.isStillTheSamePage = true")
    put_step(redis_client, 1)
    expect(admin_page.get_by_text("101.5")).to_be_visible(timeout=20_000)
    assert admin_page.evaluate("window.isStillTheSamePage") is True


@pytest.mark.parametrize("width", [360, 1400])
def test_the_page_is_no_wider_than_the_screen(
    admin_page: Page, live_server: LiveServer, redis_client: redis.Redis, width: int
) -> None:
    put_step(redis_client, 0)
    admin_page.set_viewport_size({"width": width, "height": 800})
    admin_page.goto(f"{live_server.url}/admin/telemetry_app/run/run-a/change/")
    expect(admin_page.get_by_text("100.5")).to_be_attached()
    assert admin_page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.usefixtures("redis_client")
def test_signing_in_leads_to_the_fleet_page(page: Page, live_server: LiveServer, admin_user: object) -> None:
    page.goto(f"{live_server.url}/admin/login/")
    page.fill("#id_username", "admin")
    page.fill("#id_password", "password")
    page.press("#id_password", "Enter")
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
