"""The fleet on one page."""

from __future__ import annotations

import pytest

from telemetry_app.instants import rfc3339
from telemetry_app.models import Run, RunState
from telemetry_app.snapshots import take_snapshot
from tests.support.costs import cost_of
from tests.support.records import RUN, op, sample_failure, step_of_ops, turn, worker
from workers_client import wire
from workers_client.wire_worker import CurrentOp, CurrentTurn, OutstandingWork

pytestmark = pytest.mark.django_db
PARTS = ["as_of", "coverage", "runs", "workers", "stuck_requests", "failures", "gpu", "site"]


def ran(first, last, run_id, name="forward_backward"):
    return wire.TurnOp(name, first, last, run_id=run_id)


@pytest.fixture
def put(writer, now):
    """Three runs, one of them lost with a request, and a device that two of them share."""
    for number, run_id in enumerate((RUN, "run-b", "run-c")):
        writer.operations(*step_of_ops(0, at=now - 1_000 + number, run_id=run_id))
        writer.steps(1, run_id=run_id)
    writer.operations(op(at=now - 5), op(at=now - 4, status="failed", error_type="ValueError"))
    writer.operations(op(at=now - 7_200, status="failed", run_id="run-b"))
    writer.samples(sample_failure(at=now - 3))
    writer.ledger(RUN, enqueued=9, answered=8)
    held = (OutstandingWork("run-b", "optim_step", 1, now - 600, ("q1",)),)
    open_now = (OutstandingWork(RUN, "optim_step", 1, now - 2, ("q2",)),)
    writer.workers(
        worker("t-1", at=now),
        worker("t-2", at=now - 500, runs=("run-b",), outstanding=held),
        worker("s-1", at=now, role="sampler"),
        worker("a-1", at=now, role="api_server", outstanding=open_now),
    )
    writer.turns(
        turn(at=now - 7_000, started_at=now - 7_100, ops=(ran(now - 7_100, now - 7_000, RUN),)),
        turn(at=now - 1_000, started_at=now - 2_000, ops=(ran(now - 2_000, now - 1_000, RUN),)),
        turn(at=now - 500, started_at=now - 1_000, requested_at=now - 1_500, workload="workload-2",
             ops=(ran(now - 1_000, now - 900, None, "wake_up"), ran(now - 900, now - 500, "run-b"))),
    )  # fmt: skip
    return writer


KEPT = pytest.mark.parametrize("kept", ["live", "both"])


def answer_of(api, kept):
    if kept == "both":
        take_snapshot()
    return api.answer("/fleet")


@KEPT
def test_all_is_told_on_one_page(api, put, kept):
    answer = answer_of(api, kept)
    assert list(answer) == PARTS
    assert (answer["coverage"]["live"], answer["coverage"]["history"]) == (True, True)


@KEPT
def test_runs_are_counted_by_state(api, put, kept):
    runs = answer_of(api, kept)["runs"]
    assert list(runs["by_state"]) == list(RunState.values)
    assert (runs["count"], sum(runs["by_state"].values()), runs["told_live_count"]) == (3, 3, 3)
    assert (runs["by_state"]["lost"], runs["by_state"]["progressing"], runs["by_state"]["idle"]) == (1, 1, 1)


@KEPT
def test_workers_are_counted_by_role_and_health(api, put, kept):
    workers = answer_of(api, kept)["workers"]
    assert (workers["count"], workers["by_health"]) == (4, {"alive": 3, "late": 0, "lost": 1, "exited": 0})
    assert workers["by_role"]["trainer"] == {"alive": 1, "late": 0, "lost": 1, "exited": 0}
    assert workers["by_role"]["dispatcher"] == {"alive": 0, "late": 0, "lost": 0, "exited": 0}


def test_workers_that_redis_forgot_count_for_a_day(api, put, now):
    put.workers(worker("t-3", at=now - 5_000), worker("t-4", at=now - 90_000))
    take_snapshot()
    for name in ("t-3", "t-4"):
        put.client.zrem(wire.WORKERS_KEY, name)
    assert api.answer("/fleet")["workers"]["by_health"]["lost"] == 2


@KEPT
def test_stuck_requests_are_counted_and_named(api, put, now, kept):
    stuck = answer_of(api, kept)["stuck_requests"]
    assert (stuck["requests_count"], stuck["orphaned_count"], stuck["total_matching"]) == (1, 1, 1)
    [oldest] = stuck["oldest"]
    assert (oldest["run_id"], oldest["worker"], oldest["oldest_at"]) == ("run-b", "t-2", rfc3339(now - 600))


@KEPT
def test_failures_of_the_last_hour_are_counted(api, put, kept):
    failures = answer_of(api, kept)["failures"]
    assert failures["total_matching"] == 2
    assert [failure["kind"] for failure in failures["newest"]] == ["sample", "operation"]


@KEPT
def test_the_hour_of_the_gpu_adds_up(api, put, kept):
    gpu = answer_of(api, kept)["gpu"]
    assert (gpu["devices"], gpu["total_seconds"]) == (1, pytest.approx(3_600))
    assert {each["run_id"]: round(each["seconds"]) for each in gpu["by_run"]} == {RUN: 1_000, "run-b": 400}
    assert gpu["switching"]["seconds"] == pytest.approx(100, abs=0.01)
    assert gpu["overlap_seconds"] == 0
    parts = [gpu[name] for name in ("computing", "switching", "idle_while_waited", "idle")]
    assert sum(part["seconds"] for part in parts) == pytest.approx(3_600)
    assert sum(part["share"] for part in parts) == pytest.approx(1.0)


@KEPT
def test_a_gpu_is_not_idle_before_anything_was_recorded_of_it(api, writer, now, kept):
    writer.operations(op(at=now))
    writer.turns(turn(at=now - 60, started_at=now - 160, requested_at=now - 200, ops=(ran(now - 160, now - 60, RUN),)))
    gpu = answer_of(api, kept)["gpu"]
    assert (gpu["since"], gpu["total_seconds"]) == (rfc3339(now - 200), pytest.approx(200, abs=30))
    assert gpu["idle"]["seconds"] == pytest.approx(60, abs=30)


def test_a_turn_that_goes_on_counts(api, writer, now):
    writer.operations(op(at=now))
    writer.workers(
        worker("t-1", at=now, turn=CurrentTurn("w-1", now - 90, now - 80), current=CurrentOp("f", RUN, "q", now - 70)),
        worker("t-2", at=now, turn=CurrentTurn("w-2", now - 75)),
    )
    gpu = api.answer("/fleet")["gpu"]
    assert gpu["computing"]["seconds"] == pytest.approx(70, abs=20)
    assert gpu["idle_while_waited"]["seconds"] == pytest.approx(15, abs=0.01)


def test_without_turns_the_gpu_has_no_shares(api, writer, now):
    writer.operations(op(at=now))
    gpu = api.answer("/fleet")["gpu"]
    assert (gpu["devices"], gpu["idle"], gpu["by_run"]) == (0, {"seconds": 0.0, "share": None}, [])


def test_the_site_says_what_it_can_see(api, put):
    take_snapshot()
    Run.objects.filter(run_id=RUN).update(missing_records=7)
    site = api.answer("/fleet")["site"]
    assert site["checks"]["redis"] == site["checks"]["postgres"] == {"ok": True}
    assert site["checks"]["snapshot"]["age_seconds"] >= 0
    assert "retention" in site["checks"]
    assert (site["missing_records"], site["runs_with_missing_records"]) == (7, 1)
    assert site["snapshot_lag_seconds"] >= 0


def test_an_empty_site_has_a_fleet_of_nothing(api, writer):
    answer = api.answer("/fleet")
    assert (answer["runs"]["count"], answer["workers"]["count"], answer["failures"]["total_matching"]) == (0, 0, 0)


def test_an_unknown_parameter_is_refused(api, put):
    assert api.refusal("/fleet", state="lost")["attr"] == "state"


# --- Outages and cost -----------------------------------------------------------------------------------------
def test_with_redis_out_history_tells_the_fleet_of_the_newest_snapshot(api, put, point_site_at, tmp_path):
    take_snapshot()
    before = api.answer("/fleet")
    point_site_at(f"unix://{tmp_path}/nothing.sock?db=0")
    answer = api.answer("/fleet")
    assert (answer["coverage"]["live"], answer["coverage"]["source"]) == (False, "history")
    assert answer["as_of"] == answer["coverage"]["last_snapshot_at"]
    assert answer["runs"]["by_state"] == before["runs"]["by_state"]
    assert answer["workers"] == before["workers"]
    assert answer["stuck_requests"]["requests_count"] == 1
    assert answer["failures"]["total_matching"] == 2
    assert answer["gpu"]["computing"]["seconds"] == pytest.approx(1_400, abs=0.01)
    assert (answer["site"]["is_ready"], answer["site"]["checks"]["redis"]["ok"]) == (False, False)


def test_with_postgres_out_redis_tells_the_fleet(api, put, postgres_out):
    before = api.answer("/fleet")
    postgres_out()
    answer = api.answer("/fleet")
    assert (answer["coverage"]["live"], answer["coverage"]["history"]) == (True, False)
    for name in ("runs", "workers"):
        assert answer[name] == before[name]
    assert answer["stuck_requests"]["requests_count"] == 1
    assert answer["failures"]["total_matching"] == 2
    assert answer["gpu"]["computing"]["seconds"] == pytest.approx(1_400, abs=0.01)


def test_with_both_out_nothing_can_be_said(api, put, postgres_out, redis_out):
    postgres_out()
    assert api.answer("/fleet", 503)["errors"][0]["code"] == "sources_unavailable"


@pytest.mark.parametrize("kept", ["both", "history"])
def test_an_answer_costs_as_much_for_a_large_fleet_as_for_a_small_one(api, writer, now, monkeypatch, kept):
    costs = []
    for numbers in (range(1), range(1, 20)):
        for n in numbers:
            run_id = f"run-{n}"
            writer.operations(op(at=now - 50, run_id=run_id), op(at=now - 9, run_id=run_id, status="failed"))
            writer.ledger(run_id, enqueued=9, answered=1)
            held = (OutstandingWork(run_id, "optim_step", 1, now - 99, ("q1",)),)
            writer.workers(worker(f"t-{n}", at=now, runs=(run_id,), outstanding=held))
            writer.turns(turn(at=now - 30, workload=f"w-{n}", ops=(ran(now - 31, now - 30, run_id),)))
        take_snapshot()
        if kept == "history":
            writer.client.flushdb()
        costs.append(cost_of(api, "/fleet", monkeypatch))
    assert costs[0] == costs[1]
    assert costs[1][0] <= 25
    assert costs[1][1] <= 10
