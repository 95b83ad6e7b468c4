"""The page of one incident: its facts with links to records, the verdict now, others at the same time."""

from __future__ import annotations

import re
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from telemetry_app.incidents import take_verdicts
from telemetry_app.models import Incident, Run
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, RecordWriter, op

pytestmark = pytest.mark.django_db
LIST = "/admin/telemetry_app/incident/"


def page_of(client: Client, incident: Incident) -> str:
    answer = client.get(f"{LIST}{incident.pk}/change/")
    assert answer.status_code == 200
    return answer.content.decode()


def section(text: str, name: str) -> str:
    [found] = re.findall(rf'<section [^>]*id="{name}".*?</section>', text, re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", found).split())


@pytest.fixture
def failing(writer: RecordWriter) -> Incident:
    """A run whose newest three ops failed, as a pass and a snapshot found it."""
    now = time.time()
    writer.operations(*(op(at=now - n, status="failed", error_type="ValueError", step=7) for n in range(3)))
    take_verdicts()
    take_snapshot()
    return Incident.objects.get()


def past(code: str, *, begun: float, ended: float | None, run_id: str = "run-b", **fields: object) -> Incident:
    now = timezone.now()
    end = None if ended is None else now - timedelta(hours=ended)
    return Incident.objects.create(
        run_id=run_id, code=code, cause=f"why {code}", started_at=now - timedelta(hours=begun),
        last_held_at=end or now, ended_at=end, changed_at=end or now, **fields,
    )  # fmt: skip


def test_it_names_the_records_that_say_so(admin_client: Client, failing: Incident) -> None:
    shown = page_of(admin_client, failing)
    records = section(shown, "incident-records")
    assert records.count("ValueError") == 3
    assert "operation__exact=forward_backward&amp;error_type__exact=ValueError" in shown
    assert "change/?from=7&amp;to=7" in shown
    assert "failing" in section(shown, "incident-now")
    assert "[{" not in shown  # no JSON


def test_records_that_are_gone_are_said_to_be(admin_client: Client) -> None:
    fact = {"text": "so it was", "record_ids": ["w:1", "w:2"], "request_ids": [f"request-{n}" for n in range(12)]}
    incident = past("failing", begun=30, ended=29, evidence=[fact])
    shown = page_of(admin_client, incident)
    assert section(shown, "incident-records").count("not in history") == 2
    assert "so it was" in section(shown, "incident-evidence")
    assert "and 4 more" in section(shown, "incident-evidence")
    assert 'id="incident-now"' not in shown


def test_it_leads_to_the_run_and_the_gpus_at_that_time(admin_client: Client) -> None:
    incident = past("queued", begun=3, ended=2, run_id="run/b")
    shown = page_of(admin_client, incident)
    for link in re.findall(r'href="([^"]*since=[^"]*)"', shown):
        assert "until=" in link
    assert "/run/run_2Fb/change/?since=" in shown
    assert "/run/gpus/?since=" in shown


def test_others_of_that_time_are_listed_with_their_own_pages(admin_client: Client) -> None:
    incident = past("queued", begun=3, ended=2)
    beside = past("stuck", begun=2.5, ended=None, run_id="run-c")
    past("lost", begun=9, ended=8, run_id="run-d")
    past("failing", begun=1, ended=0.5, run_id="run-e")
    shown = page_of(admin_client, incident)
    others = section(shown, "incident-others")
    assert "why stuck" in others
    assert "why lost" not in others
    assert "why failing" not in others
    assert f'href="{LIST}{beside.pk}/change/"' in shown


@pytest.mark.parametrize("key", ["0", "x", "9" * 40, "1_2F2"])
def test_what_is_no_incident_is_not_found(admin_client: Client, key: str) -> None:
    assert admin_client.get(f"{LIST}{key}/change/").status_code == 404


def test_hostile_texts_are_texts(admin_client: Client) -> None:
    Run.objects.create(run_id=RUN, name="<script>alert(1)</script>", first_seen_at=timezone.now(),
                       last_activity_at=timezone.now())  # fmt: skip
    fact = {"text": "<img src=x onerror=alert(1)>", "worker": "a/<b>", "record_ids": ["<i>"]}
    shown = page_of(admin_client, past("stuck", begun=3, ended=2, run_id=RUN, evidence=[fact]))
    assert not re.search("<script>alert|<img src=x|<i>", shown)


def test_without_redis_the_run_is_told_from_history(
    admin_client: Client, failing: Incident, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("redis_out")
    assert "failing" in section(page_of(admin_client, failing), "incident-now")


def test_many_records_and_others_take_as_many_queries_as_few(admin_client: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page_of(admin_client, incident)
        return len(captured)

    incident = past("queued", begun=3, ended=2, evidence=[{"text": "x", "record_ids": ["w:1"]}])
    few = queries()
    incident.evidence = [{"text": "x", "record_ids": [f"w:{n}" for n in range(200)]}]
    incident.save()
    for number in range(30):
        past("stuck", begun=2.5, ended=1, run_id=f"run-{number}")
    assert queries() == few
