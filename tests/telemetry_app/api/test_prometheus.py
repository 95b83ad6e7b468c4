"""`/metrics`: what a scrape tells, what it leaves out while something is out, and what it costs."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from telemetry_app import metric_totals, readers
from telemetry_app.incidents import take_verdicts
from telemetry_app.models import Execution, Run, VerdictPass
from telemetry_app.prometheus import scrape
from telemetry_app.prometheus.families import FAMILIES
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, START, op, sample_group, step_of_ops, turn, worker
from tests.support.scraping import parsed, scraped
from tests.support.snapshots import snapshot
from workers_client.wire_worker import OutstandingWork

pytestmark = pytest.mark.django_db
# What a Prometheus sends.
ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
LIVE = {"openrl_active_runs", "openrl_workers", "openrl_requests_open", "openrl_requests_stuck"}
TOTALS = {family.name for family in FAMILIES if family.kind == "counter" and "_site_" not in family.name}


@pytest.fixture
def get(client, token):
    """A function that scrapes as Prometheus does and returns the answer."""
    return lambda **headers: client.get("/metrics", headers={"Authorization": f"Bearer {token}"} | headers)


def put(writer, at, run_id=RUN):
    writer.operations(*step_of_ops(0, at=at, run_id=run_id, elapsed_seconds=1.0), op(at=at, run_id=run_id, step=1))
    writer.ledger(run_id, enqueued=5, popped=5, answered=3, recorded=3)
    writer.steps(1, run_id=run_id)
    writer.samples(sample_group(at=at, run_id=run_id))
    writer.turns(turn(at=at, requested_at=at - 3))


def pass_over(after_seconds=0.0):
    take_verdicts(now=datetime.fromtimestamp(START + after_seconds, UTC))


# --- The answer -----------------------------------------------------------------------------------------------
def test_a_scrape_tells_every_metric_there_is(get, writer, now, settings):
    settings.TELEMETRY_METRICS_RUNS = 1
    put(writer, now - 5)
    writer.workers(worker(at=now, outstanding=(OutstandingWork(RUN, "forward_backward", 2, now - 1),)))
    take_snapshot()
    take_verdicts()
    get()
    response = get()
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    metrics = parsed(response.content.decode())
    missing = {name for family in FAMILIES for name in family.sample_names} - metrics.names
    assert missing == set()


def test_every_metric_has_its_help_and_type(get, writer):
    told = {family.name: family for family in parsed(get().content.decode()).families}
    for family in FAMILIES:
        name = family.name.removesuffix("_total")
        if name in told:
            assert (told[name].documentation, told[name].type) == (family.help, family.kind)


def test_who_takes_openmetrics_gets_it(get, writer):
    response = get(Accept=ACCEPT)
    assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert response.content.endswith(b"# EOF\n")


def test_the_answer_is_compressed_for_who_takes_that(get, writer):
    response = get(**{"Accept-Encoding": "gzip"})
    assert response.headers["Content-Encoding"] == "gzip"
    assert parsed(gzip.decompress(response.content).decode()).value("openrl_redis_up") == 1


# --- Access ---------------------------------------------------------------------------------------------------
def test_nothing_is_told_without_sign_in_and_errors_are_the_apis(client, writer):
    response = client.get("/metrics", headers={"Accept": ACCEPT})
    assert response.status_code == 401
    assert response.json()["errors"][0]["code"] == "not_authenticated"


def test_who_may_not_read_runs_may_not_scrape(client, get, writer, django_user_model):
    django_user_model.objects.get(username="reader").groups.clear()
    assert get().status_code == 403


def test_a_parameter_that_means_nothing_is_refused(client, token, writer):
    response = client.get("/metrics", {"name[]": "up"}, headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 400


# --- The fleet now --------------------------------------------------------------------------------------------
def test_workers_runs_and_requests_are_those_of_the_newest_pass(writer):
    writer.operations(op(at=START - 550))  # nothing went on without the worker
    writer.ledger(enqueued=3, answered=1)
    held = (OutstandingWork(RUN, "forward_backward", 2, START - 500, ("a", "b")),)
    writer.workers(
        worker("t-1", at=START - 300, outstanding=held), worker("t-2", at=START, runs=()),
        worker("s-1", at=START, role="sampler", runs=()), worker("x-1", at=START, role="juggler", runs=()),
    )  # fmt: skip
    pass_over()
    metrics = scraped(after_seconds=7)
    assert metrics.value("openrl_fleet_age_seconds") == 7
    assert metrics.of("openrl_active_runs", "state") == {"lost": 1}
    assert metrics.value("openrl_workers", role="trainer", health="lost") == 1
    assert metrics.value("openrl_workers", role="trainer", health="alive") == 1
    assert metrics.value("openrl_workers", role="other", health="alive") == 1
    assert metrics.value("openrl_workers", role="dispatcher", health="alive") == 0
    assert metrics.of("openrl_requests_open", "operation") == {"forward_backward": 2}
    assert metrics.of("openrl_requests_stuck", "operation") == {"forward_backward": 2}
    assert metrics.of("openrl_requests_oldest_seconds", "operation") == {"forward_backward": 500}
    assert metrics.value("openrl_requests_stuck", operation="optim_step") == 0


def test_requests_of_ops_that_nobody_knows_are_told_under_few_names(writer):
    work = tuple(OutstandingWork(RUN, f"made-up-{n:02}", n + 1, START - 9) for n in range(50))
    writer.ledger(enqueued=5_000)
    writer.active(RUN, START)
    writer.workers(worker(at=START, outstanding=work))
    pass_over()
    found = scraped(after_seconds=1).of("openrl_requests_open", "operation")
    assert len(found) == 21
    assert (found["made-up-49"], found["other"]) == (50, sum(range(1, 31)))


def test_what_was_told_too_long_ago_is_left_out_not_told_as_zero(writer):
    pass_over()
    assert scraped(after_seconds=60).names >= LIVE
    metrics = scraped(after_seconds=61)
    assert not metrics.names & LIVE
    assert metrics.value("openrl_fleet_age_seconds") == 61


# --- The site -------------------------------------------------------------------------------------------------
def test_the_newest_snapshot_tells_its_lag_and_age(writer):
    put(writer, START - 5)
    snapshot(after_seconds=10)
    Execution.objects.update(finished_at=datetime.fromtimestamp(START + 12, UTC))
    metrics = scraped(after_seconds=30)
    assert metrics.value("openrl_snapshot_lag_seconds") == 16  # of the first op, which ended at START - 6
    assert metrics.value("openrl_snapshot_seconds") == 2
    assert metrics.value("openrl_snapshot_failed_runs") == 0
    assert metrics.value("openrl_check_age_seconds", check="snapshot") == 20
    assert metrics.value("openrl_check_age_limit_seconds", check="snapshot") == 120
    assert metrics.value("openrl_check_ok", check="snapshot") == 1
    assert scraped(after_seconds=131).value("openrl_check_ok", check="snapshot") == 0


def test_with_redis_out_the_fleet_is_left_out_and_the_totals_stay(get, writer, now, redis_out):
    VerdictPass.objects.create(ended_at=timezone.now(), fleet={"runs": {"idle": 1}})
    metrics = parsed(get().content.decode())
    assert metrics.value("openrl_redis_up") == 0
    assert metrics.value("openrl_check_ok", check="redis") == 0
    assert not metrics.names & LIVE
    assert metrics.value("openrl_records_missing_total") == 0


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_with_postgres_out_what_it_tells_is_left_out(get, writer, postgres_out, monkeypatch, when):
    take_verdicts()
    get()
    if when == "before":
        monkeypatch.setattr("telemetry_app.readiness._TOLD_BY_POSTGRES", (_fail,))
    else:
        monkeypatch.setattr(metric_totals.MetricTotal.objects, "filter", _fail)
    response = get()
    assert response.status_code == 200
    metrics = parsed(response.content.decode())
    assert (metrics.value("openrl_postgres_up"), metrics.value("openrl_redis_up")) == (0, 1)
    assert not metrics.names & (LIVE | TOTALS)
    assert metrics.value("openrl_site_requests_total", method="GET", route="/metrics", status="2xx")


def _fail(*_, **__):
    raise OperationalError("connection refused")


# --- Cost and bounds ------------------------------------------------------------------------------------------
def cost(get, monkeypatch):
    """Return the queries and round trips to Redis of a scrape, and its number of samples but those of the site."""
    trips, ask = [], readers._pipeline
    with monkeypatch.context() as patch, CaptureQueriesContext(connection) as queries:
        patch.setattr(readers, "_pipeline", lambda commands: trips.append(1) or ask(commands))
        metrics = parsed(get().content.decode())
    return len(queries), len(trips), len([name for name, _ in metrics.values if "_site_" not in name])


def test_a_scrape_costs_as_much_for_many_runs_as_for_one_and_reads_none(get, writer, now, monkeypatch):
    put(writer, now - 20)
    take_snapshot()
    take_verdicts()
    one = cost(get, monkeypatch)
    for number in range(30):
        put(writer, now - 10, run_id=f"run-{number}")
    take_snapshot()
    take_verdicts()
    assert cost(get, monkeypatch) == one
    assert one[0] <= 12
    assert one[1] <= 1
    with CaptureQueriesContext(connection) as queries:
        get()
    read = {name for query in queries for name in ('_run"', '_operation"', '_worker"') if name in query["sql"]}
    assert read == set()


def test_single_runs_are_told_only_where_a_setting_asks_for_them(writer, settings):
    for number in range(5):
        put(writer, START - number, run_id=f"run-{number}")
    snapshot()
    assert not [name for name in scraped().names if name.startswith("openrl_run_")]
    settings.TELEMETRY_METRICS_RUNS = 2
    metrics = scraped()
    assert metrics.of("openrl_run_operations_total", "run") == {"run-0": 3, "run-1": 3}
    assert metrics.of("openrl_run_steps_total", "run") == {"run-0": 1, "run-1": 1}
    assert metrics.value("openrl_run_state", run="run-0", state=Run.objects.get(pk="run-0").state) == 1


def test_single_runs_have_an_end_whatever_the_setting_says(writer, settings, monkeypatch):
    monkeypatch.setattr(scrape, "MOST_RUNS", 1)
    settings.TELEMETRY_METRICS_RUNS = 10
    for number in range(3):
        put(writer, START - number, run_id=f"run-{number}")
    snapshot()
    assert len(scraped().of("openrl_run_operations_total", "run")) == 1
