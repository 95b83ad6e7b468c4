"""`/workers`: the list and one, with the health they have now."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from telemetry_app.instants import rfc3339
from telemetry_app.models import Worker
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, worker
from workers_client import wire
from workers_client.wire_worker import CurrentOp, CurrentTurn, OutstandingWork

pytestmark = pytest.mark.django_db


def names(results):
    return [result["worker"] for result in results]


@pytest.fixture(params=["live", "history", "both"])
def four_workers(request, writer, now):
    """One worker of each health."""
    writer.workers(
        worker("alive", at=now - 1, node="node-1"),
        worker("late", at=now - 30, role="sampler", runs=("run-b",)),
        worker("lost", at=now - 300, node="node-1", role="api_server"),
        worker("exited", at=now - 400, exited_at=now - 400, exit_reason="closed"),
    )
    if request.param != "live":
        take_snapshot()
    if request.param == "history":
        writer.client.flushdb()
    return writer


def test_without_any_worker_the_list_is_empty(api, writer):
    answer = api.answer("/workers")
    assert (answer["results"], answer["total_matching"], answer["next"]) == ([], 0, None)


def test_workers_come_newest_heartbeat_first_with_their_health(api, four_workers):
    results = api.results("/workers")
    assert [(result["worker"], result["health"]) for result in results] == [
        ("alive", "alive"), ("late", "late"), ("lost", "lost"), ("exited", "exited"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"role": "sampler"}, ["late"]),
        ({"health": "lost"}, ["lost"]),
        ({"health": "exited"}, ["exited"]),
        ({"node": "node-1"}, ["alive", "lost"]),
        ({"run": RUN}, ["alive", "lost", "exited"]),
        ({"run": "run-b", "role": "trainer"}, []),
    ],
)
def test_filters_keep_what_they_say(api, four_workers, query, expected):
    answer = api.answer("/workers", **query)
    assert (names(answer["results"]), answer["total_matching"]) == (expected, len(expected))


def test_a_worker_that_redis_forgot_is_told_from_history(api, four_workers, now):
    take_snapshot()
    four_workers.client.flushdb()
    four_workers.workers(worker("new", at=now))
    assert names(api.results("/workers")) == ["new", "alive", "late", "lost", "exited"]


def test_the_record_of_redis_is_the_newer_one(api, writer, now):
    writer.workers(worker("w", at=now - 5, phase="idle"))
    take_snapshot()
    writer.workers(worker("w", at=now, phase="running"))
    assert [result["phase"] for result in api.results("/workers")] == ["running"]


@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_pages_show_each_worker_once_though_they_tie(api, writer, now, page_size):
    writer.workers(*(worker(f"w-{number}", at=now) for number in range(9)))
    found = names(api.walk("/workers", page_size=page_size))
    assert found == [f"w-{number}" for number in range(9)]


def test_a_cursor_of_another_filter_is_refused(api, four_workers):
    cursor = api.answer("/workers", page_size=1)["next"]
    assert "other filters" in api.refusal("/workers", role="trainer", cursor=cursor)["detail"]


@pytest.mark.parametrize(
    ("name", "value"), [("role", "cook"), ("health", "fine"), ("state", "idle"), ("page_size", "0")]
)
def test_a_bad_parameter_is_refused_by_name(api, writer, name, value):
    assert api.refusal("/workers", **{name: value})["attr"] == name


def test_bad_records_are_counted_and_the_others_listed(api, writer, now):
    writer.workers(worker("good", at=now))
    writer.raw_worker("bad", {"role": "trainer"}, heartbeat_at=now)
    answer = api.answer("/workers")
    assert (names(answer["results"]), answer["coverage"]["malformed"]) == (["good"], 1)


def test_a_worker_is_told_with_all_it_says_of_itself(api, writer, now):
    record = worker(
        "w", at=now, phase="running", phase_since=now - 9, pid=7, parent="p", pod="pod", pod_uid="uid", node="n",
        host="h",
        current=CurrentOp("optim_step", RUN, "q1", now - 3), turn=CurrentTurn("w1", now - 9, now - 8),
        outstanding=(OutstandingWork(RUN, "optim_step", 2, now - 9, ("q1",)), OutstandingWork("run-b", "sample", 3)),
        settings={"OPEN_RL_MODE": "async"}, versions={"python": "3.11"}, buffer={"sent": 10}, turns={"count": 3},
        clock_offset_seconds=0.0,
    )  # fmt: skip
    writer.workers(record)
    answer = api.answer("/workers/w")
    for name in ("phase", "pid", "parent", "pod", "pod_uid", "node", "host", "settings", "versions", "buffer", "turns"):
        assert answer[name] == getattr(record, name)
    assert answer["current"] == {
        "operation": "optim_step",
        "run_id": RUN,
        "request_id": "q1",
        "started_at": rfc3339(now - 3),
    }
    assert answer["turn"]["started_at"] == rfc3339(now - 8)
    assert (answer["outstanding_count"], len(answer["outstanding"]), answer["health"]) == (5, 2, "alive")


def test_one_worker_is_the_same_from_history(api, writer, now):
    writer.workers(worker("w", at=now, settings={"A": "b"}, current=CurrentOp("optim_step", RUN, "q1", now - 3)))
    live = api.answer("/workers/w")
    take_snapshot()
    writer.client.flushdb()
    history = api.answer("/workers/w")
    live.pop("as_of"), history.pop("as_of")
    assert history == live


@pytest.mark.parametrize("name", ["läuft 🚀", "a/b", "a:b#c%20d", "x.y", "a b"])
def test_a_worker_is_reachable_whatever_its_name(api, writer, now, name):
    writer.workers(worker(name, at=now))
    assert api.answer(f"/workers/{quote(name, safe='')}")["worker"] == name


def test_a_worker_nobody_knows_is_not_found(api, writer):
    assert api.answer("/workers/nobody", 404)["errors"][0]["code"] == "not_found"


def test_a_row_that_another_version_wrote_is_passed_over(api, writer, now):
    writer.workers(worker("w", at=now))
    take_snapshot()
    writer.client.flushdb()
    Worker.objects.update(record={})
    assert api.results("/workers") == []


def test_an_index_entry_without_a_record_makes_no_worker(api, writer, now):
    writer.client.zadd(wire.WORKERS_KEY, {"gone": now})
    assert api.results("/workers") == []
