"""The verdict on a run: one state, how one knows, whom it waits for across runs, and what can safely be done."""

from __future__ import annotations

import pytest

from telemetry_app.instants import rfc3339
from telemetry_app.models import Run
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, op, sample_group, step_of_ops, worker
from tests.telemetry_app.api.conftest import run_path

pytestmark = pytest.mark.django_db
PATH = run_path(RUN, "/verdict")


def held(at, *ids, run_id=RUN, operation="forward_backward"):
    return {
        "run_id": run_id, "operation": operation, "count": len(ids), "oldest_at": at, "request_ids": list(ids),
    }  # fmt: skip


@pytest.fixture
def waiting(writer, now):
    """A run whose trainer waits for the GPU, which another run's holds with an op that runs as long as it may."""
    writer.operations(*step_of_ops(0, at=now - 40), op(at=now - 100, run_id="run-b", elapsed_seconds=30.0))
    writer.ledger(enqueued=3, popped=3, answered=2, delivered=2, last_enqueued_at=now - 25)
    writer.workers(
        worker(
            "t-1", at=now - 1, outstanding=[held(now - 25, "q-1")],
            turn={"workload": "a", "requested_at": now - 20},
        ),
        worker(
            "t-2", at=now - 1, runs=("run-b",), outstanding=[held(now - 31, "q-2", run_id="run-b")],
            turn={"workload": "b", "requested_at": now - 31, "started_at": now - 30},
            current={"operation": "forward_backward", "run_id": "run-b", "request_id": "q-2", "started_at": now - 30},
        ),
    )  # fmt: skip


def test_a_run_that_waits_names_the_holder_its_run_and_its_op(api, waiting):
    answer = api.answer(PATH)
    assert answer["state"] == "waiting_for_gpu"
    assert answer["for_seconds"] == pytest.approx(20, abs=5)
    [link] = answer["chain"]
    assert (link["relation"], link["worker"], link["workload"]) == ("holds_gpu", "t-2", "b")
    assert (link["run_id"], link["operation"], link["request_id"]) == ("run-b", "forward_backward", "q-2")
    assert link["condition"] is None
    assert answer["evidence"][0]["request_ids"] == ["q-1"]
    assert "t-2 moves" in answer["counter_evidence"][0]["text"]
    assert any("GET /runs/run-b/verdict" in text for text in answer["next"])


def test_a_holder_that_is_stuck_itself_is_said_to_be(api, waiting, writer, now):
    current = {"operation": "forward_backward", "run_id": "run-b", "request_id": "q-2", "started_at": now - 400}
    turn = {"workload": "b", "started_at": now - 400}
    writer.workers(worker("t-2", at=now - 1, runs=("run-b",), turn=turn, current=current))
    answer = api.answer(PATH)
    assert answer["state"] == "waiting_for_gpu"
    assert answer["chain"][0]["condition"] == "stuck"
    assert "is itself stuck" in answer["evidence"][0]["text"]


def test_a_holder_that_was_lost_is_said_to_be(api, waiting, writer, now):
    writer.workers(worker("t-2", at=now - 300, runs=("run-b",), turn={"workload": "b", "started_at": now - 310}))
    assert [(link["worker"], link["condition"]) for link in api.answer(PATH)["chain"]] == [("t-2", "lost")]


def test_the_expectation_says_of_how_many_records_it_is(api, writer, now):
    writer.operations(*(op(at=now - 100 - n, elapsed_seconds=40.0) for n in range(25)))
    writer.ledger(enqueued=26, popped=26, answered=25, delivered=25, last_enqueued_at=now - 210)
    writer.workers(worker("t-1", at=now - 1, outstanding=[held(now - 210, "q-1")]))
    answer = api.answer(PATH)
    assert answer["state"] == "stuck"
    assert answer["expectation"] == {
        "operation": "forward_backward", "percentile_95_seconds": 40.0, "records_count": 25, "basis": "run",
        "limit_seconds": 200.0,
    }  # fmt: skip
    assert answer["evidence"][0]["request_ids"] == ["q-1"]
    assert answer["counter_evidence"][0]["text"].startswith("t-1 is alive")


def test_evidence_names_the_records(api, writer, now):
    records = [op(at=now - age, status="failed", error_type="OutOfMemoryError") for age in (30, 20, 10)]
    writer.operations(*records)
    answer = api.answer(PATH)
    assert answer["state"] == "failing"
    assert answer["evidence"][0]["record_ids"] == [record.id for record in records]


def test_findings_stand_beside_the_state(api, writer, now):
    writer.operations(*(op(at=now - 10 + n, metrics={"loss:sum": 0.0}, step=n) for n in range(5)))
    answer = api.answer(PATH)
    assert [finding["code"] for finding in answer["findings"]] == ["loss_is_zero"]
    assert answer["findings"][0]["count"] == 5
    assert answer["state"] == "progressing"


@pytest.mark.parametrize("part", ["", "/verdict"])
def test_one_run_has_one_state_wherever_it_is_shown(api, waiting, part):
    [listed] = [run for run in api.results("/runs") if run["run_id"] == RUN]
    answer = api.answer(run_path(RUN, part))
    assert answer["state"] == listed["state"]
    assert [each if isinstance(each, str) else each["state"] for each in answer["also"]] == listed["also"]


def test_the_state_of_a_run_does_not_depend_on_how_many_records_were_read(api, writer, now):
    failed = [op("load_weights", at=now - 5_000 + n, status="failed") for n in range(3)]
    writer.operations(*failed, *(op(at=now - 200 + n) for n in range(100)))
    states = {api.answer(run_path(RUN, part))["state"] for part in ("", "/verdict")}
    assert states == {api.results("/runs")[0]["state"]} != {"failing"}


def test_with_redis_out_the_verdict_is_that_of_history(api, writer, now, redis_out_later):
    writer.operations(*step_of_ops(0, at=now - 40))
    take_snapshot()
    redis_out_later()
    answer = api.answer(PATH)
    assert answer["coverage"]["live"] is False
    assert answer["state"] == "waiting_for_client"


@pytest.fixture
def redis_out_later(point_site_at, tmp_path):
    return lambda: point_site_at(f"unix://{tmp_path}/nothing.sock?db=0")


def test_an_unknown_run_has_no_verdict(api, writer):
    api.answer(run_path("nobody", "/verdict"), 404)


@pytest.mark.parametrize("offset_seconds", [3_600.0, -3_600.0])
def test_a_run_is_judged_by_rediss_clock_whatever_its_workers_is(api, writer, now, offset_seconds):
    """By a clock an hour ahead its last op would be of the future, and the run would progress until that comes."""
    ended = now - 120
    writer.workers(worker("t-1", at=now + offset_seconds, clock_offset_seconds=offset_seconds))
    writer.operations(op(at=ended + offset_seconds, worker="t-1"))
    writer.samples(sample_group(at=ended - 5 + offset_seconds, worker="t-1"))
    writer.ledger(enqueued=1, popped=1, answered=1, delivered=1)
    answers = [api.answer(run_path(RUN, "/verdict")), api.answer(run_path(RUN)), api.answer("/runs")["results"][0]]
    assert [answer["state"] for answer in answers] == ["waiting_for_client"] * 3
    assert answers[0]["since"] == rfc3339(ended)
    assert answers[0]["clock_offset_seconds"] == offset_seconds
    take_snapshot()
    assert Run.objects.get().state == "waiting_for_client"
