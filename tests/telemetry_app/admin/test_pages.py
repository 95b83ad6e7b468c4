"""The admin's pages: what a person sees, in how many queries, empty and full, and while a server is out."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from telemetry_app.models import Run, Worker, WorkerEvent
from telemetry_app.snapshots import take_snapshot
from workers_client import wire
from workers_client.codec import encode_object

LISTS = ("run", "worker", "failedoperation", "failedsample", "execution")

pytestmark = pytest.mark.django_db


def put_run(client: redis.Redis, run: str, *, steps: int = 2, failures: int = 0) -> None:
    """Put a run with so many steps and failed ops into Redis."""
    now = time.time()
    for number in range(steps + failures):
        failed = number >= steps
        fields = {
            "id": f"{run}:{number}",
            "run_id": run,
            "operation": "forward_backward" if failed else "optim_step",
            "request_id": f"req-{number}",
            "status": "failed" if failed else "succeeded",
            "at": now - 60 + number,
            "step": min(number, steps),
            "metrics": {} if failed else {"grad_norm:mean": 0.5 + number},
            **({"error_type": "CudaOutOfMemory"} if failed else {}),
        }
        client.rpush(wire.operations_key(run), encode_object(fields))
    client.set(wire.steps_key(run), steps)
    client.zadd(wire.RUNS_KEY, {run: now})


def put_worker(client: redis.Redis, worker: str, run: str) -> None:
    """Put the record of a living trainer into Redis."""
    now = time.time()
    fields = {"worker": worker, "role": "trainer", "at": now, "runs": [run], "phase": "idle", "settings": {"A": "b"}}
    client.set(wire.worker_key(worker), encode_object(fields))
    client.zadd(wire.WORKERS_KEY, {worker: now})


def text_of(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("name", LISTS)
def test_lists_answer_when_nothing_was_recorded(admin_client: Client, redis_client: redis.Redis, name: str) -> None:
    assert "No snapshot was taken yet" in text_of(admin_client, f"/admin/telemetry_app/{name}/")


def test_the_empty_fleet_page_says_how_to_connect_a_worker(admin_client: Client, redis_client: redis.Redis) -> None:
    assert "workers_client.start" in text_of(admin_client, "/admin/")


@pytest.mark.parametrize("name", LISTS)
def test_a_list_takes_as_many_queries_for_many_rows_as_for_one(
    admin_client: Client, redis_client: redis.Redis, name: str
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(admin_client, f"/admin/telemetry_app/{name}/")
        return len(captured)

    put_run(redis_client, "run-0", failures=1)
    put_worker(redis_client, "trainer-0", "run-0")
    take_snapshot()
    text_of(admin_client, f"/admin/telemetry_app/{name}/")  # what is looked up once in a process
    with_one = queries()
    for number in range(1, 12):
        put_run(redis_client, f"run-{number}", failures=2)
        put_worker(redis_client, f"trainer-{number}", f"run-{number}")
        take_snapshot()
    assert queries() == with_one


def test_the_run_page_takes_as_many_queries_for_many_records_as_for_few(
    admin_client: Client, redis_client: redis.Redis, django_assert_max_num_queries: Callable[..., object]
) -> None:
    put_run(redis_client, "run-a", steps=40, failures=20)
    take_snapshot()
    redis_client.flushdb()
    with django_assert_max_num_queries(28):
        text_of(admin_client, "/admin/telemetry_app/run/run-a/change/")


def test_the_run_page_shows_steps_failures_and_workers(admin_client: Client, redis_client: redis.Redis) -> None:
    put_run(redis_client, "run/a:1", failures=1)
    put_worker(redis_client, "trainer-host-1", "run/a:1")
    shown = text_of(admin_client, "/admin/telemetry_app/run/run_2Fa_3A1/change/")
    for expected in ("run/a:1", "optim_step", "grad_norm:mean", "1.5", "CudaOutOfMemory", "trainer-host-1", "alive"):
        assert expected in shown


def test_the_worker_page_shows_what_happened(admin_client: Client, redis_client: redis.Redis) -> None:
    put_worker(redis_client, "trainer-0", "run-0")
    page = "/admin/telemetry_app/worker/trainer-0/change/"
    take_snapshot()
    WorkerEvent.objects.create(worker_id="trainer-0", event="late", at=timezone.now(), detail="<b>so</b>")
    shown = text_of(admin_client, page)
    assert "started" in shown
    assert "late" in shown
    assert "&lt;b&gt;so&lt;/b&gt;" in shown


def test_the_run_page_escapes_what_a_worker_wrote(admin_client: Client, redis_client: redis.Redis) -> None:
    put_run(redis_client, "<script>alert(1)</script>")
    take_snapshot()
    for path in (
        "/admin/",
        "/admin/telemetry_app/run/",
        "/admin/telemetry_app/run/_3Cscript_3Ealert(1)_3C_2Fscript_3E/change/",
    ):
        shown = text_of(admin_client, path)
        assert "<script>alert(1)" not in shown
        assert "&lt;script&gt;alert(1)" in shown


def test_the_run_page_says_that_redis_is_out_and_shows_history(
    admin_client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_run(redis_client, "run-a")
    take_snapshot()
    monkeypatch.setattr("telemetry_app.readers._connection", _refused)
    shown = text_of(admin_client, "/admin/telemetry_app/run/run-a/change/")
    assert "Redis can&#x27;t be read" in shown or "Redis can't be read" in shown
    assert "grad_norm:mean" in shown


def test_the_run_page_is_titled_with_what_people_call_the_run(admin_client: Client, redis_client: redis.Redis) -> None:
    put_run(redis_client, "run-a")
    take_snapshot()
    Run.objects.update(name="The good one")
    shown = text_of(admin_client, "/admin/telemetry_app/run/run-a/change/")
    assert "<title> The good one | OpenRL telemetry</title>" in shown
    assert '<p class="t-under">run-a</p>' in shown


def test_a_page_of_an_unknown_run_is_not_found(admin_client: Client, redis_client: redis.Redis) -> None:
    assert admin_client.get("/admin/telemetry_app/run/nobody/change/").status_code == 404


def test_lists_warn_when_the_newest_snapshot_is_old(admin_client: Client, redis_client: redis.Redis) -> None:
    take_snapshot(now=timezone.now() - timedelta(hours=1))
    assert "later than it should be" in text_of(admin_client, "/admin/telemetry_app/run/")


@pytest.mark.parametrize(("health", "age_seconds"), [("alive", 1), ("late", 30), ("lost", 3600)])
def test_workers_are_found_by_health(admin_client: Client, health: str, age_seconds: int) -> None:
    heartbeat = timezone.now() - timedelta(seconds=age_seconds)
    Worker.objects.create(worker="trainer-x", role="trainer", last_heartbeat_at=heartbeat, interval_seconds=5)
    for chosen in ("alive", "late", "lost", "exited"):
        shown = text_of(admin_client, f"/admin/telemetry_app/worker/?health={chosen}")
        assert ("trainer-x" in shown) is (chosen == health)


def test_runs_are_found_by_any_part_of_their_id(admin_client: Client) -> None:
    for run in ("Qwen/Qwen3-8B", "other"):
        Run.objects.create(run_id=run, first_seen_at=timezone.now(), last_activity_at=timezone.now())
    shown = text_of(admin_client, "/admin/telemetry_app/run/?q=qwen3")
    assert "Qwen/Qwen3-8B" in shown
    assert "other" not in shown


def test_history_is_read_only(admin_client: Client) -> None:
    run = Run.objects.create(run_id="run-a", first_seen_at=timezone.now(), last_activity_at=timezone.now())
    for name in LISTS:
        assert admin_client.get(f"/admin/telemetry_app/{name}/add/").status_code == 403
    answer = admin_client.post(f"/admin/telemetry_app/run/{run.pk}/delete/", {"post": "yes"})
    assert answer.status_code == 403
    assert Run.objects.filter(pk="run-a").exists()


@pytest.mark.parametrize(
    "path",
    ["auth/user/", "auth/group/", "telemetry_app/apitoken/", "django_celery_beat/periodictask/",
     "django_celery_beat/intervalschedule/", "django_celery_beat/crontabschedule/"],
)  # fmt: skip
def test_pages_of_other_applications_answer(admin_client: Client, path: str) -> None:
    assert text_of(admin_client, f"/admin/{path}")
    assert text_of(admin_client, f"/admin/{path}add/")


def test_an_operator_sees_and_changes_the_schedule(admin_client: Client) -> None:
    shown = text_of(admin_client, "/admin/django_celery_beat/periodictask/")
    assert "Snapshot of Redis into PostgreSQL" in shown
    assert "Retention of stored records" in shown
    assert "<title> Periodic tasks | OpenRL telemetry</title>" in shown
    assert "every 10 seconds" in shown
    assert "At 03:15" in shown  # a crontab in words


def test_a_list_of_users_says_who_may_do_what(admin_client: Client, django_user_model: Any) -> None:
    machine = django_user_model.objects.create_user("night-agent")
    machine.groups.add(Group.objects.get(name="viewer"))
    shown = text_of(admin_client, "/admin/auth/user/")
    assert "everything" in shown
    assert "viewer" in shown
    assert "tokens only" in shown


def test_a_search_leads_back_to_the_whole_list_and_a_whole_list_nowhere(admin_client: Client) -> None:
    assert "show all" in text_of(admin_client, "/admin/auth/user/?q=nobody-called-so")
    assert "show all" not in text_of(admin_client, "/admin/auth/user/")


def _refused() -> redis.Redis:
    raise redis.ConnectionError("refused")
