"""Every page in Chromium: nothing asked of another site, no serious accessibility fault, no wider than the screen."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth import get_user_model
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from telemetry_app.alerts.notices import take_notice
from telemetry_app.alerts.sending import send_due
from telemetry_app.incidents import take_verdicts
from telemetry_app.models import AlertChannel, AlertDelivery, AlertMute, AlertRule, ApiToken, Execution, Incident, Run
from telemetry_app.retention import apply_retention
from telemetry_app.schedule import create_periodic_tasks
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RecordWriter, turn
from workers_client import wire
from workers_client.codec import encode_object

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
TELEMETRY = "/admin/telemetry_app"
PAGES = (
    "/admin/", f"{TELEMETRY}/run/", f"{TELEMETRY}/run/requests/", f"{TELEMETRY}/run/run_2Fa/describe/",
    f"{TELEMETRY}/run/run_2Fa/change/", f"{TELEMETRY}/failedoperation/groups/", f"{TELEMETRY}/failedoperation/",
    f"{TELEMETRY}/run/gpus/", f"{TELEMETRY}/run/gpu/?device=n-1", f"{TELEMETRY}/run/gpu/?device=n-1&by=day",
    f"{TELEMETRY}/run/gpu/?device=none&since=2026-05-20T00:00", f"{TELEMETRY}/run/compare/?run=run/a",
    f"{TELEMETRY}/worker/", f"{TELEMETRY}/worker/trainer-gone/change/", f"{TELEMETRY}/execution/upkeep/",
    f"{TELEMETRY}/execution/", f"{TELEMETRY}/retentionpolicy/operations/change/", f"{TELEMETRY}/apitoken/",
    f"{TELEMETRY}/apitoken/add/", f"{TELEMETRY}/incident/", "/admin/auth/user/",
    f"{TELEMETRY}/alertrule/", f"{TELEMETRY}/alertrule/add/", f"{TELEMETRY}/alertchannel/",
    f"{TELEMETRY}/alertchannel/add/", f"{TELEMETRY}/alertmute/", f"{TELEMETRY}/alertmute/add/?run_id=a",
    f"{TELEMETRY}/alertdelivery/", "/admin/auth/user/add/", "/admin/auth/group/",
    "/admin/django_celery_beat/periodictask/",
    "/admin/django_celery_beat/periodictask/add/",
)  # fmt: skip
# What counts, and nothing else is computed: in the dark, colours alone are others.
AXE: dict[str, dict[str, Any]] = {
    "light": {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]},
    "dark": {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]},
}


@pytest.fixture
def fleet_in_trouble(redis_client: redis.Redis) -> None:
    """A run with a failed op, whose request a worker holds that is gone."""
    now = time.time()
    failed = {
        "id": "w:1", "run_id": "run/a", "operation": "forward_backward", "status": "failed", "at": now - 5, "step": 0,
        "error_type": "CudaOutOfMemory",
    }  # fmt: skip
    request = {"run_id": "run/a", "operation": "optim_step", "count": 1, "oldest_at": now - 900, "request_ids": ["r"]}
    worker = {"worker": "trainer-gone", "role": "trainer", "at": now - 600, "runs": ["run/a"], "outstanding": [request]}
    redis_client.rpush(wire.operations_key("run/a"), encode_object(failed))
    redis_client.zadd(wire.RUNS_KEY, {"run/a": now})
    redis_client.set(wire.worker_key("trainer-gone"), encode_object(worker))
    redis_client.zadd(wire.WORKERS_KEY, {"trainer-gone": now - 600})
    op = wire.TurnOp("forward_backward", now - 50, now - 20, run_id="run/a")
    RecordWriter(redis_client).turns(
        turn(at=now - 10, requested_at=now - 70, started_at=now - 60, node="n-1", ops=(op,))
    )
    take_verdicts()
    take_snapshot()
    apply_retention()
    create_periodic_tasks()
    channel = AlertChannel.objects.create(name="mail", kind="email", recipients="a@example.org")
    AlertRule.objects.create(name="Nights", after_seconds=0).channels.add(channel)
    AlertMute.objects.create(run_id="another")
    take_notice()
    send_due()
    Run.objects.update(name="A name", tags=["one", "two"], pinned=True)


@pytest.fixture
def admin_with_token(admin_page: Page) -> Page:
    """The signed-in page of one who has a token."""
    ApiToken.objects.issue(name="agent", user=get_user_model().objects.get())
    return admin_page


@pytest.mark.usefixtures("fleet_in_trouble")
def test_pages_are_accessible_narrow_and_ask_no_other_site(admin_with_token: Page, live_server: LiveServer) -> None:
    page = admin_with_token
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    faults = []
    user = get_user_model().objects.get()
    of_rows = [
        f"/admin/auth/user/{user.pk}/change/",
        *(
            f"{TELEMETRY}/{model._meta.model_name}/{model.objects.values_list('pk', flat=True)[0]}/change/"
            for model in (AlertRule, AlertChannel, AlertDelivery, Incident)
        ),
    ]
    for path in (*PAGES, *of_rows):
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(live_server.url + path)
        for scheme, options in AXE.items():
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page, options=options).response["violations"]
            faults += [
                (path, scheme, fault["id"], node["html"][:200])
                for fault in found
                if fault["impact"] in ("serious", "critical")
                for node in fault["nodes"]
            ]
        page.set_viewport_size({"width": 360, "height": 800})
        width = page.evaluate("document.documentElement.scrollWidth")
        faults += [(path, "360 px", "too wide", str(width))] if width > 360 else []
    assert faults == []
    assert hosts == {urlsplit(live_server.url).netloc}
    assert Execution.objects.exists()


def test_an_open_page_follows_the_system_to_dark_unless_a_person_chose(
    admin_page: Page, live_server: LiveServer
) -> None:
    admin_page.emulate_media(color_scheme="light")
    admin_page.goto(f"{live_server.url}/admin/")
    root = admin_page.locator("html")
    expect(root).not_to_have_class("dark")
    admin_page.emulate_media(color_scheme="dark")
    expect(root).to_have_class("dark")
    admin_page.evaluate("localStorage.setItem('_x_adminTheme', '\"dark\"')")
    admin_page.emulate_media(color_scheme="light")
    expect(root).to_have_class("dark")


def test_filters_and_the_navigation_open_by_keyboard(admin_page: Page, live_server: LiveServer) -> None:
    admin_page.set_viewport_size({"width": 1300, "height": 800})
    admin_page.goto(f"{live_server.url}{TELEMETRY}/worker/")
    admin_page.get_by_role("button", name="Filters").press("Enter")
    expect(admin_page.get_by_role("link", name="lost")).to_be_visible()
    admin_page.keyboard.press("Escape")
    expect(admin_page.locator("#nav-sidebar")).to_be_visible()
    admin_page.get_by_role("button", name="Show or hide the navigation").press("Enter")
    expect(admin_page.locator("#nav-sidebar")).not_to_be_visible()


def test_a_link_of_the_navigation_is_heard_by_its_title_alone(admin_page: Page, live_server: LiveServer) -> None:
    admin_page.goto(f"{live_server.url}/admin/")
    navigation = admin_page.locator("#nav-sidebar")
    for title in ("Fleet", "Runs", "Retention and snapshots", "API"):
        expect(navigation.get_by_role("link", name=title, exact=True)).to_be_visible()
    heard = navigation.aria_snapshot()
    assert "model_training" not in heard


@pytest.mark.parametrize("path", ["/admin/", f"{TELEMETRY}/run/", f"{TELEMETRY}/alertrule/"])
@pytest.mark.usefixtures("redis_client")  # which is empty: whatever ran before may have left something
def test_a_fresh_site_is_no_wider_than_a_phone(admin_page: Page, live_server: LiveServer, path: str) -> None:
    admin_page.set_viewport_size({"width": 360, "height": 800})
    admin_page.goto(f"{live_server.url}{path}")
    expect(admin_page.locator(".t-steps").first).to_be_visible()
    admin_page.wait_for_function("document.documentElement.scrollWidth === 360")  # also once the plots have drawn
