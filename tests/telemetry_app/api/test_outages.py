"""Redis or PostgreSQL out: the other one answers and says so; only with both out nothing can be said."""

from __future__ import annotations

import json
import re

import pytest
from django.db import InterfaceError, OperationalError

from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, op, sample_failure, sample_group, step_of_ops, worker
from tests.telemetry_app.api.conftest import BASE, run_path

pytestmark = pytest.mark.django_db
RUN_PATHS = [run_path(RUN, part) for part in ("", "/steps", "/operations", "/failures")]
ALL_PATHS = ["/runs", *RUN_PATHS, "/failures", "/workers", "/workers/w-1"]
UNAGED = {"as_of", "coverage", "rates"}  # what moves with the clock between two answers


@pytest.fixture
def put(writer, now):
    """A run with some of everything, in Redis."""
    writer.operations(*step_of_ops(0, at=now - 5), op(at=now - 3, step=1, status="failed"))
    writer.samples(sample_group(at=now - 4, count=7), sample_failure(at=now - 4))
    writer.ledger(enqueued=9, answered=7)
    writer.steps(1)
    writer.workers(worker("w-1", at=now))
    return writer


def shown(answer):
    """Return what an answer shows but for ages: evidence tells them, too."""
    kept = {name: value for name, value in answer.items() if name not in UNAGED}
    return json.loads(re.sub(r"\d+ (s|min) ago", "a while ago", json.dumps(kept)))


# --- Redis out ------------------------------------------------------------------------------------------------
@pytest.fixture(params=["refuses", "silent", "wrong_password"])
def redis_is_out(request, point_site_at, silent_redis_url, tmp_path, redis_url):
    """A function after whose call Redis is out, in each of the ways in which it is."""
    urls = {"refuses": f"unix://{tmp_path}/nothing.sock?db=0", "silent": silent_redis_url}
    urls["wrong_password"] = redis_url.replace("unix://", "unix://nobody:wrong@")
    return lambda: point_site_at(urls[request.param])


@pytest.mark.parametrize("path", ALL_PATHS)
def test_with_redis_out_history_answers(api, put, redis_is_out, path):
    take_snapshot()
    redis_is_out()
    answer = api.answer(path)
    if "coverage" in answer:
        assert answer["coverage"]["live"] is False


@pytest.mark.parametrize("path", RUN_PATHS)
def test_with_redis_out_the_answer_has_the_age_of_its_snapshot(api, put, redis_is_out, path):
    take_snapshot()
    redis_is_out()
    answer = api.answer(path)
    assert answer["as_of"] == answer["coverage"]["last_snapshot_at"] is not None
    assert answer["coverage"]["source"] == "history"
    assert answer["coverage"]["complete"] is False


def test_with_redis_out_lists_show_what_the_snapshot_took(api, put, redis_is_out):
    take_snapshot()
    before = {
        path: api.answer(path) for path in (run_path(RUN, "/operations"), run_path(RUN, "/failures"), "/failures")
    }
    redis_is_out()
    for path, answer in before.items():
        assert shown(api.answer(path)) == shown(answer)


def test_with_redis_out_a_runs_state_is_that_of_the_snapshot(api, put, redis_is_out):
    take_snapshot()
    state = api.answer(run_path(RUN))["state"]
    redis_is_out()
    answer = api.answer(run_path(RUN))
    assert (answer["state"], answer["queue_depth"]) == (state, None)


@pytest.mark.parametrize("path", RUN_PATHS)
def test_with_redis_out_a_run_that_history_does_not_know_may_exist(api, writer, redis_out, path):
    answer = api.answer(path, 503)
    assert (answer["type"], answer["errors"][0]["code"]) == ("server_error", "sources_unavailable")
    assert RUN in answer["errors"][0]["detail"]


def test_with_redis_out_a_worker_that_history_does_not_know_may_exist(api, writer, redis_out):
    assert api.answer("/workers/nobody", 503)["errors"][0]["code"] == "sources_unavailable"


# --- PostgreSQL out -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ALL_PATHS)
def test_with_postgres_out_redis_answers(api, put, postgres_out, path):
    before = shown(api.answer(path))
    postgres_out()
    answer = api.answer(path)
    assert shown(answer) == before
    if "coverage" in answer:
        assert answer["coverage"]["live"] is True


@pytest.mark.parametrize("path", [*RUN_PATHS, "/runs", "/workers", "/failures"])
def test_with_postgres_out_the_answer_says_that_history_is_missing(api, put, postgres_out, path):
    postgres_out()
    assert api.answer(path)["coverage"]["history"] is False


def test_with_postgres_out_an_answer_is_not_complete(api, put, postgres_out):
    postgres_out()
    assert api.answer(run_path(RUN, "/steps"))["coverage"]["complete"] is False


@pytest.mark.parametrize("path", RUN_PATHS)
def test_with_postgres_out_a_run_that_redis_does_not_know_may_exist(api, writer, postgres_out, path):
    postgres_out()
    assert api.answer(path, 503)["errors"][0]["code"] == "sources_unavailable"


def test_with_postgres_out_a_worker_that_redis_does_not_know_may_exist(api, writer, postgres_out):
    postgres_out()
    assert api.answer("/workers/nobody", 503)["errors"][0]["code"] == "sources_unavailable"


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_with_postgres_out_even_for_sign_in_nothing_can_be_said(client, writer, token, monkeypatch, error):
    def fail(*_arguments, **_fields):
        raise error("connection refused")

    monkeypatch.setattr("telemetry_app.api.authentication._stored", fail)
    response = client.get(f"{BASE}/runs", headers={"Authorization": f"Token {token}"})
    assert response.status_code == 503
    assert response.json()["errors"][0]["code"] == "sources_unavailable"


# --- Both out -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ALL_PATHS)
def test_with_both_out_nothing_can_be_said(api, put, postgres_out, redis_out, path):
    postgres_out()
    answer = api.answer(path, 503)
    assert (answer["type"], answer["errors"][0]["code"]) == ("server_error", "sources_unavailable")
