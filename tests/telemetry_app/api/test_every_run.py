"""Answers over all runs at once: told alike, at a constant cost, and of many runs once for all callers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from telemetry_app import readers
from telemetry_app.inspection import every_run, known_runs
from telemetry_app.snapshots import take_snapshot
from tests.support.costs import cost_of
from tests.support.records import RUN, op, worker
from tests.telemetry_app.api.conftest import run_path
from workers_client import wire
from workers_client.wire_worker import CurrentTurn, OutstandingWork

pytestmark = pytest.mark.django_db
PATHS = ["/runs?state=lost", "/requests?stuck=true", "/fleet"]


def put_runs(writer, now, numbers):
    """Put runs, each with a worker that is lost and held a request."""
    for number in numbers:
        run_id = f"run-{number}"
        writer.operations(op(at=now - 550, run_id=run_id))  # nothing went on without the worker
        held = (OutstandingWork(run_id, "forward_backward", 1, now - 600, (f"q{number}",)),)
        writer.workers(worker(f"t-{number}", at=now - 500, runs=(run_id,), outstanding=held))


def tellings(monkeypatch):
    """Return a list that grows with each telling of all runs."""
    found, tell = [], every_run._tell
    monkeypatch.setattr(every_run, "_tell", lambda now: found.append(now) or tell(now))
    return found


def counted(api):
    """Return how many runs each answer says are lost, or held by a worker that is."""
    return [
        api.answer("/runs", state="lost")["total_matching"],
        api.answer("/requests", stuck="true")["total_matching"],
        api.answer("/fleet")["runs"]["by_state"]["lost"],
        api.answer("/fleet")["stuck_requests"]["total_matching"],
    ]


def test_all_answers_tell_the_same(api, writer, now):
    put_runs(writer, now, range(7))
    assert counted(api) == [7] * 4


def test_of_few_runs_each_answer_is_told_anew(api, writer, now):
    put_runs(writer, now, range(3))
    assert counted(api) == [3] * 4
    put_runs(writer, now, range(3, 5))
    assert counted(api) == [5] * 4


@pytest.fixture
def many(writer, now, monkeypatch):
    """Runs that are many, of a site where ten are."""
    monkeypatch.setattr(every_run, "KEPT_RUNS", 10)
    put_runs(writer, now, range(12))
    return writer


def test_many_runs_are_told_once_in_a_flush_interval(api, many, now, monkeypatch):
    told = tellings(monkeypatch)
    answers = [api.answer(path) for path in PATHS * 2]
    assert len(told) == 1
    assert len({answer["as_of"] for answer in answers}) == 1  # each says how old it is
    monkeypatch.setattr(every_run, "KEPT_SECONDS", 0.0)
    every_run.forget()
    put_runs(many, now, [12])
    assert counted(api) == [13] * 4


def test_callers_at_once_wait_for_one_telling(many, now, monkeypatch):
    told = every_run.every_run(now=now)
    every_run._kept._until = 0.0
    together, tellings = threading.Barrier(8), []

    def tell(now):
        tellings.append(now)
        threading.Event().wait(0.2)  # so that the others come meanwhile
        return told

    def call(_):
        together.wait(10)
        return every_run.every_run(now=now).runs_count

    monkeypatch.setattr(every_run, "_tell", tell)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(8))) == [12] * 8
    assert len(tellings) == 1


def test_who_finds_a_source_out_says_so_for_itself_alone(many, now):
    first = every_run.every_run(now=now)
    first.fleet.has_history = False
    assert every_run.every_run(now=now).fleet.has_history


@pytest.mark.parametrize("path", PATHS)
def test_an_answer_costs_the_same_for_few_and_for_a_hundred_runs(api, writer, now, monkeypatch, path):
    put_runs(writer, now, range(1))
    take_snapshot()
    few = cost_of(api, path, monkeypatch)
    put_runs(writer, now, range(1, known_runs.RUNS_AT_ONCE - 1))
    take_snapshot()
    assert cost_of(api, path, monkeypatch) == few


def test_no_more_of_a_run_is_read_than_its_state_needs(api, writer, now, monkeypatch):
    writer.operations(*(op(at=now - n) for n in range(200)))
    lengths = []
    original = readers.checked
    monkeypatch.setattr(
        readers, "checked", lambda elements, *rest: lengths.append(len(elements)) or original(elements, *rest)
    )
    api.answer("/runs", state="idle")
    assert max(lengths) == known_runs.NEWEST_OPERATIONS


def test_the_101st_run_of_a_lost_worker_is_told_though_redis_forgot_the_worker(api, writer, now):
    writer.operations(op(at=now - 550))
    held = (OutstandingWork(RUN, "forward_backward", 1, now - 600, ("q1",)),)
    named = tuple(f"run-{number}" for number in range(100))  # a worker names no more
    writer.workers(worker("t-lost", at=now - 500, runs=named, outstanding=held))
    take_snapshot()
    writer.client.delete(wire.worker_key("t-lost"), wire.WORKERS_KEY)
    for path in (run_path(RUN, "/requests"), "/requests"):
        assert [entry["worker"] for entry in api.results(path)] == ["t-lost"]
    [run] = api.results("/runs", q=RUN)
    assert run["state"] == "lost"


def test_the_holder_of_the_gpu_is_known_to_a_run_that_waits_alone(now):
    holder = worker("t-1", at=now, runs=("run-b",), turn=CurrentTurn("w-1", now - 9, now - 8))
    waiting = worker("t-2", at=now, turn=CurrentTurn("w-2", now - 5))
    alive = [known_runs.WorkerFact(record, known_runs.health_of(record, now, now)) for record in (holder, waiting)]
    fleet = known_runs.FleetWorkers(alive, now=now)
    assert [each.record.worker for each in fleet.of_run(RUN)] == ["t-2", "t-1"]
    assert [each.record.worker for each in fleet.of_run("run-b")] == ["t-1"]
