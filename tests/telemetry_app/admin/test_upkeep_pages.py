"""Pages of the upkeep: warnings, policies, executions, and starting a task by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from openrl_site.redis_urls import with_database
from telemetry_app.models import Execution, Operation, RetentionPolicy, Run, StepAggregate, WorkerEvent
from telemetry_app.partitions import ensure_ahead, partition_name
from telemetry_app.templatetags.telemetry import figure
from tests.support.policies import keep

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_client")]
POLICIES = "/admin/telemetry_app/retentionpolicy/"
EXECUTIONS = "/admin/telemetry_app/execution/"


def text_of(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


# --- Warnings -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["/admin/", "/admin/telemetry_app/run/", POLICIES, EXECUTIONS])
def test_a_missing_partition_stands_on_the_pages_until_it_is_made(admin_client: Client, path: str) -> None:
    name = partition_name(Operation._meta.db_table, timezone.now().date() + timedelta(days=1))
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {name}")
    assert f"Partitions are missing: {name}." in text_of(admin_client, path)
    ensure_ahead(timezone.now().date())
    assert "Partitions are missing" not in text_of(admin_client, path)


def test_a_retention_that_is_late_stands_on_the_pages(admin_client: Client) -> None:
    keep(operations=14)
    assert "no retention of" not in text_of(admin_client, "/admin/")
    RetentionPolicy.objects.update(changed_at=timezone.now() - timedelta(days=3))
    assert "There was no retention of" in text_of(admin_client, "/admin/")


# --- Policies -------------------------------------------------------------------------------------------------
def test_the_page_of_policies_says_what_each_would_free(admin_client: Client) -> None:
    keep(steps=10, worker_events=90)
    old = timezone.now() - timedelta(days=20)
    for step in range(3):
        StepAggregate.objects.create(
            run_id="run-a", step=step, operation="forward", count=1, started_at=old, finished_at=old
        )
    Execution.objects.create(task="retention", policy="steps", started_at=old, finished_at=old, rows_removed=1234)
    shown = text_of(admin_client, POLICIES)
    for expected in ("Step aggregates", "for ever", "about 3 rows", "20 d ago", f"{figure(1234)} rows"):
        assert expected in shown


def test_the_page_of_policies_takes_as_many_queries_for_many_rows_as_for_few(
    admin_client: Client, django_assert_max_num_queries: Callable[..., object]
) -> None:
    keep(**dict.fromkeys(RetentionPolicy.Kind.values, 5))
    text_of(admin_client, POLICIES)
    with CaptureQueriesContext(connection) as few:
        text_of(admin_client, POLICIES)
    old = timezone.now() - timedelta(days=20)
    for number in range(30):
        WorkerEvent.objects.create(worker_id="worker-1", event="late", at=old - timedelta(days=number))
        Execution.objects.create(task="retention", policy="steps", started_at=old)
        Run.objects.create(run_id=f"run-{number}", first_seen_at=old, last_activity_at=old)
    with django_assert_max_num_queries(len(few)):
        text_of(admin_client, POLICIES)


def test_an_operator_changes_the_days_and_nothing_else(admin_client: Client) -> None:
    keep(operations=14)
    answer = admin_client.post(f"{POLICIES}operations/change/", {"kind": "runs", "days_to_keep": "30"}, follow=True)
    assert "The next retention applies it" in answer.content.decode()
    assert RetentionPolicy.objects.get(kind="operations").days_to_keep == 30
    assert RetentionPolicy.objects.get(kind="runs").days_to_keep is None
    admin_client.post(f"{POLICIES}operations/change/", {"days_to_keep": ""})
    assert RetentionPolicy.objects.get(kind="operations").days_to_keep is None


@pytest.mark.parametrize("days", ["0", "-1", "1.5", "40000", "x"])
def test_days_that_can_not_be_meant_are_refused(admin_client: Client, days: str) -> None:
    keep(operations=14)
    assert admin_client.post(f"{POLICIES}operations/change/", {"days_to_keep": days}).status_code == 200
    assert RetentionPolicy.objects.get(kind="operations").days_to_keep == 14


def test_policies_are_neither_added_nor_deleted(admin_client: Client) -> None:
    keep(operations=14)
    assert admin_client.get(f"{POLICIES}add/").status_code == 403
    assert admin_client.post(f"{POLICIES}operations/delete/", {"post": "yes"}).status_code == 403
    assert RetentionPolicy.objects.count() == len(RetentionPolicy.Kind)


def test_policies_are_changed_by_those_who_may(client: Client, staff: Callable[..., Client]) -> None:
    keep(operations=14)
    reader = staff("view_retentionpolicy")
    assert reader.get(POLICIES).status_code == 200
    assert reader.post(f"{POLICIES}operations/change/", {"days_to_keep": "1"}).status_code == 403
    assert staff("view_retentionpolicy", "change_retentionpolicy").post(
        f"{POLICIES}operations/change/", {"days_to_keep": "1"}
    ).status_code == 302  # fmt: skip
    assert RetentionPolicy.objects.get(kind="operations").days_to_keep == 1


# --- Executions -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"s-well", "s-bad", "s-open", "r-steps", "r-runs"}),
        ("?task__exact=retention", {"r-steps", "r-runs"}),
        ("?policy=steps", {"r-steps"}),
        ("?outcome=failed", {"s-bad", "r-runs"}),
        ("?outcome=unfinished", {"s-open"}),
        ("?outcome=succeeded", {"s-well", "r-steps"}),
        ("?outcome=failed&task__exact=snapshot", {"s-bad"}),
        ("?outcome=nonsense", {"s-well", "s-bad", "s-open", "r-steps", "r-runs"}),
    ],
)
def test_executions_are_found_by_task_policy_and_outcome(admin_client: Client, query: str, found: set[str]) -> None:
    now = timezone.now()
    for task, policy, error, finished_at in (
        ("snapshot", "", "", now), ("snapshot", "", "Redis", now), ("snapshot", "", "", None),
        ("retention", "steps", "", now), ("retention", "runs", "no lock", now),
    ):  # fmt: skip
        Execution.objects.create(task=task, policy=policy, error=error, started_at=now, finished_at=finished_at)
    rows = admin_client.get(EXECUTIONS + query).context["cl"].result_list
    names = {
        f"r-{row.policy}" if row.policy else f"s-{'bad' if row.error else 'well' if row.finished_at else 'open'}"
        for row in rows
    }
    assert names == found


def test_an_execution_shows_what_went(admin_client: Client) -> None:
    now = timezone.now()
    fields = {"task": "retention", "started_at": now, "finished_at": now, "cutoff_at": now - timedelta(days=14)}
    Execution.objects.create(**fields, policy="operations", rows_removed=12_345, bytes_removed=3 * 1024 * 1024)
    Execution.objects.create(**fields, policy="redis", keys_removed=7)
    shown = text_of(admin_client, EXECUTIONS)
    for expected in (f"{figure(12_345)} rows", "3.0", "14 d ago", "7 keys"):
        assert expected in shown


# --- Starting by hand -----------------------------------------------------------------------------------------
@pytest.fixture
def staff(db: None) -> Callable[..., Client]:
    """A function that signs in a member of staff with some permissions of this application."""

    def sign_in(*permissions: str) -> Client:
        user = get_user_model().objects.create_user(f"staff-{len(permissions)}", is_staff=True)
        user.user_permissions.set(
            Permission.objects.filter(content_type__app_label="telemetry_app", codename__in=permissions)
        )
        client = Client()
        client.force_login(user)
        return client

    return sign_in


@pytest.fixture
def queue(settings: Any) -> Iterator[redis.Redis]:
    """The Redis of Celery's queue, emptied."""
    with redis.Redis.from_url(with_database(settings.REDIS_URL, 1)) as client:
        client.flushdb()
        yield client
        client.flushdb()


@pytest.mark.parametrize("task", ["snapshot", "retention"])
def test_a_button_queues_a_task_once(admin_client: Client, queue: redis.Redis, task: str) -> None:
    assert f"{EXECUTIONS}start/{task}/" in text_of(admin_client, EXECUTIONS)
    answer = admin_client.post(f"{EXECUTIONS}start/{task}/", follow=True)
    assert f"A {task} is queued" in answer.content.decode()
    [message] = queue.lrange("celery", 0, -1)
    headers = json.loads(message)["headers"]
    assert headers["task"] == f"telemetry_app.{task}"
    assert headers["expires"] is not None


def test_starting_is_a_post_of_someone_who_may(queue: redis.Redis, staff: Callable[..., Client]) -> None:
    reader, starter = staff("view_execution"), staff("view_execution", "add_execution")
    assert "Run a snapshot now" not in text_of(reader, EXECUTIONS)
    assert reader.post(f"{EXECUTIONS}start/snapshot/").status_code == 403
    assert starter.get(f"{EXECUTIONS}start/snapshot/").status_code == 405
    assert starter.post(f"{EXECUTIONS}start/flush/").status_code == 404
    assert Client().post(f"{EXECUTIONS}start/snapshot/").status_code == 302  # to the sign-in
    assert Client(enforce_csrf_checks=True).post(f"{EXECUTIONS}start/snapshot/").status_code in (302, 403)
    assert queue.llen("celery") == 0
    assert starter.post(f"{EXECUTIONS}start/snapshot/").status_code == 302
    assert queue.llen("celery") == 1


def test_a_form_of_another_site_starts_nothing(queue: redis.Redis, admin_user: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    assert client.post(f"{EXECUTIONS}start/snapshot/").status_code == 403
    assert queue.llen("celery") == 0


def test_a_queue_that_is_out_is_said(admin_client: Client, settings: Any, tmp_path: Path) -> None:
    settings.CELERY_BROKER_URL = f"redis+socket://{tmp_path}/nothing.sock?virtual_host=1"
    answer = admin_client.post(f"{EXECUTIONS}start/snapshot/", follow=True)
    assert "The snapshot was not queued" in answer.content.decode()
