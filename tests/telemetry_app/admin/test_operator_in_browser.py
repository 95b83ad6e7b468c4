"""What an operator does in a browser: finds the run in trouble and who holds it, keeps records, revokes a token."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import redis
from django.contrib.auth import get_user_model
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from telemetry_app.models import ApiToken, RetentionPolicy, Run
from telemetry_app.retention import apply_retention
from telemetry_app.snapshots import take_snapshot
from tests.support.policies import keep
from tests.support.running_site import RunningSite
from workers_client import wire
from workers_client.codec import encode_object

browser = pytest.mark.browser
with_database = pytest.mark.django_db(transaction=True)
SEEN_MILLISECONDS = 20_000  # changes show within 10 s; a loaded machine gets twice as long


def put_failure(client: redis.Redis, run: str) -> None:
    """Put a failed op of a run into Redis, as a worker does."""
    now = time.time()
    fields = {
        "id": f"{run}:{now}", "run_id": run, "operation": "forward_backward", "status": "failed", "at": now, "step": 0,
        "error_type": "CudaOutOfMemory",
    }  # fmt: skip
    client.rpush(wire.operations_key(run), encode_object(fields))
    client.zadd(wire.RUNS_KEY, {run: now})
    client.publish(wire.FLUSHED_CHANNEL, encode_object({"runs": [run]}))


def put_lost_worker(client: redis.Redis, run: str) -> None:
    """Put a trainer that stopped without a word while it held a request."""
    now = time.time()
    held = {"run_id": run, "operation": "optim_step", "count": 1, "oldest_at": now - 900, "request_ids": ["req-1"]}
    record = {"worker": "trainer-gone", "role": "trainer", "at": now - 600, "runs": [run], "outstanding": [held]}
    client.set(wire.worker_key("trainer-gone"), encode_object(record))
    client.zadd(wire.WORKERS_KEY, {"trainer-gone": now - 600})


@browser
@with_database
def test_the_run_in_trouble_leads_to_the_worker_that_holds_its_request(
    admin_page: Page, live_server: LiveServer, redis_client: redis.Redis
) -> None:
    put_failure(redis_client, "run-a")
    put_lost_worker(redis_client, "run-a")
    take_snapshot()
    admin_page.goto(f"{live_server.url}/admin/")
    expect(admin_page.locator("#fleet-trouble")).to_contain_text("trainer-gone")
    admin_page.locator("#fleet-stuck .t-heading a").click()
    expect(admin_page.locator("#requests-box")).to_contain_text("orphaned")
    admin_page.locator("#requests-box").get_by_role("link", name="trainer-gone").click()
    expect(admin_page.locator("#live-page")).to_contain_text("trainer-gone")
    expect(admin_page.locator("#live-page")).to_contain_text("lost")


@browser
@with_database
def test_a_run_gets_a_name_and_tags_by_which_it_is_found(admin_page: Page, live_server: LiveServer) -> None:
    keep()
    now = "2026-01-01T00:00:00Z"
    Run.objects.create(run_id="run/a", first_seen_at=now, last_activity_at=now)
    admin_page.goto(f"{live_server.url}/admin/telemetry_app/run/run_2Fa/describe/")
    admin_page.get_by_label("Name").fill("The good one")
    admin_page.get_by_label("Tags").fill("warm, start")
    admin_page.get_by_role("button", name="Save", exact=True).click()
    admin_page.goto(f"{live_server.url}/admin/telemetry_app/run/?q=warm")
    expect(admin_page.locator("#result_list")).to_contain_text("The good one")


@browser
@with_database
def test_a_policy_is_changed_and_applied_and_seen_to_advance(
    admin_page: Page, live_server: LiveServer, redis_client: redis.Redis
) -> None:
    keep(operations=14)
    admin_page.goto(f"{live_server.url}/admin/telemetry_app/execution/upkeep/")
    admin_page.get_by_role("link", name="change how long operations are kept").click()
    admin_page.get_by_label("Days to keep").fill("3")
    admin_page.get_by_role("button", name="Save", exact=True).click()
    expect(admin_page.locator("#policies")).to_contain_text("3 days")
    assert RetentionPolicy.objects.get(kind="operations").days_to_keep == 3
    admin_page.get_by_role("button", name="Run a retention now").click()
    expect(admin_page.locator("#progress")).to_contain_text("queued")
    apply_retention()  # as a Celery worker does that takes it
    expect(admin_page.locator("#progress")).to_contain_text("3 of 3 parts ended", timeout=SEEN_MILLISECONDS)


@browser
@with_database
def test_a_token_is_revoked_from_the_list(admin_page: Page, live_server: LiveServer) -> None:
    ApiToken.objects.issue(name="old agent", user=get_user_model().objects.get())
    admin_page.goto(f"{live_server.url}/admin/telemetry_app/apitoken/")
    admin_page.locator("input.action-select").check()
    admin_page.locator("select[name=action]").select_option("revoke")
    admin_page.get_by_role("button", name="Run").click()
    expect(admin_page.locator("#result_list")).to_contain_text("revoked")
    assert ApiToken.objects.get().revoked_at is not None


@browser
@pytest.mark.processes
def test_a_failure_shows_by_itself_and_leaves_the_rest_alone(page: Page, tmp_path: Path) -> None:
    with RunningSite(tmp_path, "--no-fleet") as site:
        site.wait_for("READY: ")
        page.goto(f"{site.access['url']}/admin/login/")
        page.get_by_label("Username").fill(site.access["username"])
        page.get_by_label("Password").fill(site.access["password"])
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#fleet-empty")).to_be_visible()
        expect(page.locator("[data-live-word]").first).to_have_text("Live")
        page.evaluate("document.querySelector('#fleet-failures').isStillTheSame = true")
        with redis.Redis.from_url(site.access["redis_url"]) as client:
            put_failure(client, "run-a")
        expect(page.locator("#fleet-failures")).to_contain_text("CudaOutOfMemory", timeout=SEEN_MILLISECONDS)
        assert page.evaluate("document.querySelector('#fleet-failures').isStillTheSame") is True
        page.goto("about:blank")  # or it would go on asking a site that has ended
