"""Incidents on the fleet's page, on a run's page and in their list; and that counts of trouble agree with its list."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from telemetry_app.incidents import take_verdicts
from telemetry_app.models import Incident, Run, VerdictPass
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, RecordWriter, op

pytestmark = pytest.mark.django_db
RUN_PAGE = f"/admin/telemetry_app/run/{RUN}/change/"


def text_of(client: Client, path: str = "/admin/") -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def section(text: str, name: str) -> str:
    """Return the text of one section of a page, without its tags."""
    [found] = re.findall(rf'<section [^>]*id="{name}".*?</section>', text, re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", found).split())


def failing(writer: RecordWriter, run_id: str = RUN) -> None:
    now = time.time()
    writer.operations(*(op(at=now - n, run_id=run_id, status="failed", error_type="ValueError") for n in range(3)))


def incident(code: str, *, started: float, ended: float | None = None, run_id: str = RUN) -> None:
    """Store an incident that began, and perhaps ended, so many hours ago."""

    def ago(hours: float) -> datetime:
        return timezone.now() - timedelta(hours=hours)

    ended_at = None if ended is None else ago(ended)
    at = {"started_at": ago(started), "last_held_at": ended_at or ago(0), "ended_at": ended_at}
    Incident.objects.create(run_id=run_id, code=code, cause=f"why {code}", changed_at=ended_at or ago(started), **at)


def test_the_fleet_shows_open_incidents_then_those_of_the_last_day(admin_client: Client, writer: RecordWriter) -> None:
    incident("lost", started=90)
    incident("queued", started=3, ended=2)
    incident("stuck", started=60, ended=40)
    shown = section(text_of(admin_client), "fleet-incidents")
    assert shown.index("why lost") < shown.index("why queued")
    assert "open since 3 d" in shown
    assert "after 1 h" in shown
    assert "why stuck" not in shown


def test_incidents_shown_are_bounded_and_counted(admin_client: Client, writer: RecordWriter) -> None:
    for number in range(40):
        incident("failing", started=2 + number / 100, ended=1, run_id=f"run-{number}")
    shown = section(text_of(admin_client), "fleet-incidents")
    assert shown.count("why failing") == 10
    assert " 40 " in shown


def test_a_run_shows_its_own_incidents_alone_open_ones_first(admin_client: Client, writer: RecordWriter) -> None:
    failing(writer)
    incident("queued", started=1, ended=0.5)
    incident("stuck", started=99, ended=90)
    incident("lost", started=1, run_id="run-b")
    take_verdicts()
    shown = section(text_of(admin_client, RUN_PAGE), "run-incidents")
    assert shown.index("failing") < shown.index("why queued") < shown.index("why stuck")
    assert "why lost" not in shown


def test_where_nothing_went_wrong_pages_say_whether_anybody_looked(admin_client: Client, writer: RecordWriter) -> None:
    writer.operations(op(at=time.time()))
    assert "Nobody looked" in section(text_of(admin_client), "fleet-incidents")
    take_verdicts()
    assert "nothing went wrong" in section(text_of(admin_client), "fleet-incidents")
    assert "None" in section(text_of(admin_client, RUN_PAGE), "run-incidents")


def test_the_list_says_when_somebody_looked(admin_client: Client, writer: RecordWriter) -> None:
    path = "/admin/telemetry_app/incident/"
    assert "Nobody looked" in text_of(admin_client, path)
    failing(writer)
    take_verdicts()
    take_snapshot()
    assert "As of the newest look" in text_of(admin_client, path)
    assert "ValueError" in text_of(admin_client, f"{path}{Incident.objects.get().pk}/change/")


def test_the_list_says_that_nobody_looked_for_long(admin_client: Client, writer: RecordWriter) -> None:
    path = "/admin/telemetry_app/incident/"
    failing(writer)
    take_verdicts()
    assert "Is the Celery worker up?" not in text_of(admin_client, path)
    VerdictPass.objects.update(ended_at=timezone.now() - timedelta(minutes=3))
    assert "later than it should be. Is the Celery worker up?" in text_of(admin_client, path)


def test_figures_lead_to_the_list(admin_client: Client, writer: RecordWriter) -> None:
    Run.objects.create(run_id=RUN, first_seen_at=timezone.now(), last_activity_at=timezone.now())
    incident("stuck", started=1)
    incident("queued", started=3, ended=2)
    path = "/admin/telemetry_app/incident/"
    assert f'href="{path}?open=yes"' in text_of(admin_client)
    listed = text_of(admin_client, f"{path}?open=yes")
    assert "why stuck" in listed
    assert "why queued" not in listed
    assert "why stuck" in text_of(admin_client, f"{path}?run_id__exact={RUN}")
    assert "why stuck" not in text_of(admin_client, f"{path}?run_id__exact=other")


def test_many_incidents_take_as_many_queries_as_one(admin_client: Client, writer: RecordWriter) -> None:
    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(admin_client, path)
        return len(captured)

    paths = ("/admin/", RUN_PAGE, "/admin/telemetry_app/incident/")
    failing(writer)
    take_snapshot()
    incident("stuck", started=1)
    for path in paths:
        text_of(admin_client, path)
    with_one = [queries(path) for path in paths]
    for number in range(20):
        incident("failing", started=2, ended=1, run_id=RUN if number % 2 else f"run-{number}")
    assert [queries(path) for path in paths] == with_one


def test_runs_in_trouble_are_those_that_are_counted_though_no_snapshot_saw_them(
    admin_client: Client, writer: RecordWriter
) -> None:
    failing(writer)
    shown = section(text_of(admin_client), "fleet-trouble")
    assert RUN in shown
    assert "ValueError" in shown


def test_trouble_that_is_over_leaves_the_list_with_the_count(admin_client: Client, writer: RecordWriter) -> None:
    failing(writer)
    take_snapshot()
    writer.operations(op(at=time.time()))
    assert Run.objects.get().state == "failing"  # until the next snapshot
    shown = text_of(admin_client)
    assert 'id="fleet-trouble"' not in shown
    assert "in trouble" in section(shown, "fleet-runs")


def test_trouble_of_runs_that_only_history_knows_is_listed(
    admin_client: Client, writer: RecordWriter, request: pytest.FixtureRequest
) -> None:
    failing(writer)
    take_snapshot()
    request.getfixturevalue("redis_out")
    shown = text_of(admin_client)
    assert RUN in section(shown, "fleet-trouble")
    assert "1" in section(shown, "fleet-runs")
