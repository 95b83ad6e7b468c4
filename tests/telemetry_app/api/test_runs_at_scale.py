"""`/runs` over many runs: as many queries, and as little read, as over one."""

from __future__ import annotations

import tracemalloc

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from telemetry_app import readers
from telemetry_app.instants import from_unix
from telemetry_app.models import Run
from workers_client import wire

pytestmark = pytest.mark.django_db
QUERIES = ["", "q=run", "ordering=steps_completed", "state=idle", "worker=w-1", "active_since=2026-01-01T00:00:00Z"]


def put_runs(client, now, numbers):
    """Put runs into both sources, each with other numbers."""
    Run.objects.bulk_create(
        Run(
            run_id=f"run-{number}", first_seen_at=from_unix(now), last_activity_at=from_unix(now - 1_000 - number),
            steps_completed=number % 7, state="idle",
        )
        for number in numbers
    )  # fmt: skip
    client.zadd(wire.RUNS_KEY, {f"run-{number}": now - 1_000 - number for number in numbers})


def cost_of(api, query, monkeypatch):
    """Return the queries, round trips and rows read that a page of ten takes."""
    trips, rows = [], []
    pipeline, from_db = readers._pipeline, Run.from_db.__func__
    with monkeypatch.context() as patch, CaptureQueriesContext(connection) as queries:
        patch.setattr(readers, "_pipeline", lambda commands: trips.append(1) or pipeline(commands))
        patch.setattr(Run, "from_db", classmethod(lambda cls, *values: rows.append(1) or from_db(cls, *values)))
        api.answer("/runs?" + query + "&page_size=10")
    return len(queries), len(trips), len(rows)


def test_a_page_costs_as_much_of_10_000_runs_as_of_50(api, redis_client, now, monkeypatch):
    put_runs(redis_client, now, range(50))
    few = {query: cost_of(api, query, monkeypatch) for query in QUERIES}
    put_runs(redis_client, now, range(50, 10_000))
    many = {query: cost_of(api, query, monkeypatch) for query in QUERIES}
    by_state = many.pop("state=idle"), few.pop("state=idle")
    assert many == few
    assert max(rows for _, _, rows in many.values()) == 10
    assert by_state[0][0] == by_state[1][0]
    assert by_state[0][1] <= by_state[1][1] + 10  # states are told a hundred at a time, of a thousand at most


def test_memory_of_a_page_is_bounded(api, redis_client, now):
    put_runs(redis_client, now, range(10_000))
    api.answer("/runs")
    tracemalloc.start()
    api.answer("/runs")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 16 * 2**20  # 10,000 rows as objects were 40 MB


def test_pages_over_both_sources_show_each_run_once(api, redis_client, now):
    put_runs(redis_client, now, range(0, 300, 2))
    redis_client.zadd(wire.RUNS_KEY, {f"run-{number}": now - 1_000 - number for number in range(1, 300, 2)})
    redis_client.zrem(wire.RUNS_KEY, "run-10", "run-20")
    found = [run["run_id"] for run in api.walk("/runs", page_size=37)]
    assert found == [f"run-{number}" for number in range(300)]


def test_activity_that_redis_saw_later_moves_a_run_ahead(api, redis_client, now):
    put_runs(redis_client, now, range(5))
    redis_client.zadd(wire.RUNS_KEY, {"run-4": now + 1})
    assert [run["run_id"] for run in api.results("/runs", page_size=2)] == ["run-4", "run-0"]


@pytest.mark.parametrize("ordering", ["-last_activity_at", "steps_completed", "-run_id"])
def test_a_cursor_survives_ties_inserts_and_deletes(api, redis_client, now, ordering):
    put_runs(redis_client, now, range(40))
    Run.objects.update(last_activity_at=from_unix(now))
    redis_client.delete(wire.RUNS_KEY)  # all tie
    first = api.answer("/runs", ordering=ordering, page_size=15)
    shown = [run["run_id"] for run in first["results"]]
    Run.objects.filter(run_id__in=[shown[-1], shown[0]]).delete()  # the run that the cursor stands on, too
    Run.objects.create(run_id="run-00", first_seen_at=from_unix(now), last_activity_at=from_unix(now))
    rest, cursor = [], first["next"]
    while cursor:
        answer = api.answer("/runs", ordering=ordering, page_size=15, cursor=cursor)
        rest += [run["run_id"] for run in answer["results"]]
        cursor = answer["next"]
    assert not set(shown) & set(rest)
    assert len(rest) == len(set(rest))
    assert set(rest) - {"run-00"} == {f"run-{number}" for number in range(40)} - set(shown)
