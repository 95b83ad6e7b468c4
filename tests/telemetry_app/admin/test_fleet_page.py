"""The fleet page: figures that lead to their lists, a bar that adds up, empty, stale and without Redis."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
import redis
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape

from telemetry_app.admin.gpu_bar import gpu_bar
from telemetry_app.groups import VIEWER
from telemetry_app.models import Incident, Run
from telemetry_app.snapshots import take_snapshot
from workers_client import wire
from workers_client.codec import encode_object

pytestmark = pytest.mark.django_db


def text_of(client: Client, path: str = "/admin/") -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def put_run(client: redis.Redis, run: str, *, worker: str = "") -> None:
    """Put a run with one failed op into Redis; a worker that is long gone holds a request of it."""
    now = time.time()
    fields = {
        "id": f"{run}:1", "run_id": run, "operation": "forward_backward", "status": "failed", "at": now - 5, "step": 0,
        "error_type": "CudaOutOfMemory",
    }  # fmt: skip
    client.rpush(wire.operations_key(run), encode_object(fields))
    client.zadd(wire.RUNS_KEY, {run: now})
    if worker:
        held = {"run_id": run, "operation": "optim_step", "count": 1, "oldest_at": now - 900, "request_ids": ["req-1"]}
        record = {"worker": worker, "role": "trainer", "at": now - 600, "runs": [run], "outstanding": [held]}
        client.set(wire.worker_key(worker), encode_object(record))
        client.zadd(wire.WORKERS_KEY, {worker: now - 600})


def gpu(**changes: Any) -> dict[str, Any]:
    """Return a fleet's `gpu` of one device over 100 s."""
    runs = [{"run_id": f"run-{number}", "seconds": 10.0 - number, "share": 0.1 - number / 100} for number in range(8)]
    held = sum(run["seconds"] for run in runs)

    def part(seconds: float) -> dict[str, float]:
        return {"seconds": seconds, "share": seconds / 100}

    rest = {"switching": part(5.0), "idle_while_waited": part(7.0), "idle": part(100 - held - 12)}
    return {"total_seconds": 100.0, "by_run": runs, "other_runs": part(0.0), **rest, **changes}


def test_the_parts_of_the_bar_add_up() -> None:
    parts = gpu_bar(gpu())
    assert sum(part.share for part in parts) == pytest.approx(1.0)
    assert sum(part.seconds for part in parts) == pytest.approx(100.0)
    assert [part.run_id for part in parts if part.run_id] == [f"run-{number}" for number in range(6)]
    assert len({part.mark for part in parts}) == len(parts)  # no part is told by its colour alone


def test_there_is_no_bar_without_a_device() -> None:
    assert gpu_bar(gpu(total_seconds=0.0)) == []


def test_trouble_is_named_with_who_holds_it_and_each_figure_leads_to_its_list(
    admin_client: Client, redis_client: redis.Redis
) -> None:
    put_run(redis_client, "run-a", worker="trainer-gone")
    take_snapshot()
    shown = text_of(admin_client)
    for expected in ("run-a", "lost", "trainer-gone", "CudaOutOfMemory"):
        assert expected in shown
    links = set(re.findall(r'href="(/admin/[^"]*\?[^"]*)"', shown))
    expected_links = {"state__exact=lost", "stuck=yes", "hours=1", "role=trainer&amp;health=lost"}
    for query in expected_links:
        [address] = [link for link in links if link.endswith(query)]
        listed = text_of(admin_client, address.replace("&amp;", "&"))
        assert "run-a" in listed or "trainer-gone" in listed, address


def test_an_empty_fleet_says_how_to_connect_a_worker(admin_client: Client, redis_client: redis.Redis) -> None:
    for path in ("/admin/", "/admin/telemetry_app/run/"):
        shown = text_of(admin_client, path)
        assert "No runs yet" in shown
        for line in ("pip install .", "export REDIS_URL=", 'recorder = workers_client.start(role="trainer")'):
            assert escape(line) in shown or line in shown


def test_redis_that_is_out_is_said_and_history_stays(
    admin_client: Client, redis_client: redis.Redis, request: pytest.FixtureRequest
) -> None:
    put_run(redis_client, "run-a")
    take_snapshot()
    request.getfixturevalue("redis_out")
    shown = text_of(admin_client)
    assert "what stands here is history" in shown
    assert "run-a" in shown


def test_the_fleet_takes_as_many_queries_for_many_runs_as_for_few(
    admin_client: Client, redis_client: redis.Redis
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(admin_client)
        return len(captured)

    put_run(redis_client, "run-0", worker="trainer-0")
    take_snapshot()
    text_of(admin_client)
    with_one = queries()
    for number in range(1, 12):
        put_run(redis_client, f"run-{number}", worker=f"trainer-{number}")
    take_snapshot()
    assert queries() <= with_one


@pytest.mark.parametrize("run", ["x" * 256, "🤖/émoji run", "<script>alert(1)</script>", "a\u202eb"])
def test_odd_ids_are_shown_as_what_they_are(admin_client: Client, redis_client: redis.Redis, run: str) -> None:
    put_run(redis_client, run, worker="<b>trainer</b>")
    take_snapshot()
    Run.objects.update(name="<i>name</i>", tags=["<u>tag</u>"])
    for path in (
        "/admin/", "/admin/telemetry_app/run/", "/admin/telemetry_app/run/requests/",
        "/admin/telemetry_app/failedoperation/groups/", "/admin/telemetry_app/failedoperation/",
    ):  # fmt: skip
        shown = text_of(admin_client, path)
        assert escape(run) in shown or escape(run[:10]) in shown, path
        for raw in ("<script>alert", "<b>trainer", "<i>name", "<u>tag"):
            assert raw not in shown, path


def test_a_redis_that_does_not_answer_is_asked_once(
    admin_client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_snapshot()
    asked = []

    def hangs() -> None:
        asked.append(1)
        raise redis.TimeoutError

    monkeypatch.setattr("telemetry_app.readers._connection", hangs)
    shown = text_of(admin_client)
    assert "what stands here is history" in shown
    assert shown.count("Redis can't be read") == 1
    assert len(asked) == 1  # each time takes as long as a time-out


def test_who_may_not_see_runs_sees_none_and_is_told_so(client: Client, redis_client: redis.Redis) -> None:
    put_run(redis_client, "a-run-of-others", worker="a-worker-of-others")
    take_snapshot()
    client.force_login(get_user_model().objects.create_user("nobody-yet", is_staff=True))
    shown = text_of(client)
    assert "a-run-of-others" not in shown
    assert "a-worker-of-others" not in shown
    assert "Not shown, as your user may not see them: runs" in shown
    assert "This site" in shown
    viewer = get_user_model().objects.create_user("viewer", is_staff=True)
    viewer.groups.add(Group.objects.get(name=VIEWER))
    client.force_login(viewer)
    assert "a-run-of-others" in text_of(client)
    assert "Not shown" not in text_of(client)


def test_the_filter_of_workers_names_roles_as_the_pages_do(admin_client: Client, redis_client: redis.Redis) -> None:
    record = {"worker": "api-1", "role": "api_server", "at": time.time(), "runs": []}
    redis_client.set(wire.worker_key("api-1"), encode_object(record))
    redis_client.zadd(wire.WORKERS_KEY, {"api-1": time.time()})
    take_snapshot()
    shown = text_of(admin_client, "/admin/telemetry_app/worker/")
    assert re.search(r"role=api_server[^>]*title=\"API server\"", shown)


def test_an_open_incident_says_what_its_run_is_now(admin_client: Client, redis_client: redis.Redis) -> None:
    put_run(redis_client, "run-a", worker="trainer-gone")
    take_snapshot()
    now = timezone.now()
    Incident.objects.create(
        run_id="run-a", code="stuck", started_at=now, last_held_at=now, changed_at=now, cause="as it began"
    )
    shown = text_of(admin_client)
    began = shown[shown.index('id="fleet-incidents"') :]
    assert re.search(r"as it began.*?now</span>.*?lost", began, re.DOTALL)


def test_all_open_requests_are_reached_page_by_page(
    admin_client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry_app.admin.open_requests.SHOWN_ENTRIES", 2)
    for number in range(3):
        put_run(redis_client, f"run-{number}", worker=f"worker-{number}")
    path, seen = "/admin/telemetry_app/run/requests/?stuck=yes", set()
    first = text_of(admin_client, path)
    seen |= set(re.findall(r">worker-\d<", first))
    assert len(seen) == 2
    following = re.search(r'id="requests-next"><a class="t-link" href="(\?[^"]+)"', first)
    assert following
    second = text_of(admin_client, path.split("?")[0] + following[1].replace("&amp;", "&"))
    assert len(seen | set(re.findall(r">worker-\d<", second))) == 3
    assert "requests-next" not in second
    assert "Back to the oldest" in second
    assert set(re.findall(r">worker-\d<", text_of(admin_client, path + "&cursor=nonsense"))) == seen
