"""What the plots of a run's page read: thinned step times, and what is shown as CSV."""

from __future__ import annotations

import csv
import io
import time
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from telemetry_app.models import StepAggregate, StepTime
from telemetry_app.snapshots import take_snapshot
from telemetry_app.step_clock import PARTS
from tests.support.records import RUN, WORKER, RecordWriter, op, turn
from workers_client.wire import FORWARD_BACKWARD, OPTIM_STEP, TurnOp

pytestmark = pytest.mark.django_db
BASE = "/admin/telemetry_app/run/run-a/"
STEPS = 40


def put_steps(writer: RecordWriter, count: int = STEPS, *, slow: int = -1) -> float:
    """Put steps of 2 s (one of them 5 s) with two ops each into Redis; a second is left to no op. Return when."""
    begin = at = time.time() - 1_000
    for number in range(count):
        at += 5.0 if number == slow else 2.0
        writer.operations(
            op(FORWARD_BACKWARD, at=at - 0.5, step=number, elapsed_seconds=0.5, queue_seconds=0.25,
               enqueued_at=at - 1.25, metrics={"loss:mean": 9.0 - number / 10}),
            op(OPTIM_STEP, at=at, step=number, elapsed_seconds=0.5),
        )  # fmt: skip
    writer.steps(count)
    return begin


def read(client: Client, path: str, **query: Any) -> dict[str, Any]:
    answer = client.get(BASE + path, query)
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def walls(answer: dict[str, Any]) -> list[float | None]:
    return [point["wall_seconds"] and round(point["wall_seconds"], 3) for point in answer["results"]]


def test_few_steps_have_a_point_each(admin_client: Client, writer: RecordWriter) -> None:
    put_steps(writer, 4)
    answer = read(admin_client, "step-times")
    assert (answer["from"], answer["to"], answer["steps_per_point"]) == (0, 3, 1)
    assert walls(answer)[1:] == [2.0, 2.0, 2.0]
    assert answer["operations"] == ["forward_backward", "optim_step"]
    assert answer["results"][1]["operations"]["forward_backward"] == {
        "count": 1, "failures": 0, "seconds": 0.5, "queue_seconds": 0.25,
    }  # fmt: skip


@pytest.mark.parametrize("exact_steps", [8, 200])
def test_thinned_steps_keep_their_mean_and_the_slowest(
    admin_client: Client, writer: RecordWriter, monkeypatch: pytest.MonkeyPatch, exact_steps: int
) -> None:
    monkeypatch.setattr("telemetry_app.inspection.step_times.EXACT_STEPS", exact_steps)
    put_steps(writer, slow=10)
    take_snapshot()
    answer = read(admin_client, "step-times", points=10)
    assert answer["steps_per_point"] == 4
    assert [point["step"] for point in answer["results"]] == list(range(0, STEPS, 4))
    slowest = answer["results"][2]
    assert (slowest["wall_max_seconds"], slowest["wall_max_step"]) == (pytest.approx(5.0, abs=0.01), 10)
    assert walls(answer)[1:3] == [2.0, 2.75]
    assert slowest["operations"]["optim_step"]["seconds"] == 0.5
    assert sum(point["steps_count"] for point in answer["results"]) == STEPS


def put_shared_steps(writer: RecordWriter) -> None:
    """Put the steps, of which each waited 0.25 s for a GPU that run-b's trainer held meanwhile."""
    begin = put_steps(writer)
    for number in range(STEPS):
        at = begin + 2.0 * number
        ops = (TurnOp(name=OPTIM_STEP, start=at + 0.5, end=at + 1.0, run_id="run-b"),)
        own = (TurnOp(name=FORWARD_BACKWARD, start=at + 1.0, end=at + 1.5, run_id=RUN),)
        writer.turns(
            turn(at=at + 1.0, started_at=at + 0.5, ops=ops, workload="trainer-b", worker="b"),
            turn(at=at + 2.0, requested_at=at + 0.75, started_at=at + 1.0, ops=own, worker=WORKER),
        )


@pytest.mark.parametrize("points", [10, 500])
def test_where_time_went_is_the_same_of_stored_and_of_new_steps(
    admin_client: Client, writer: RecordWriter, monkeypatch: pytest.MonkeyPatch, points: int
) -> None:
    put_shared_steps(writer)
    exact = read(admin_client, "step-times", points=points, split="clock")
    take_snapshot()
    assert StepTime.objects.count() > STEPS / 2
    monkeypatch.setattr("telemetry_app.inspection.step_times.EXACT_STEPS", 8)
    kept = read(admin_client, "step-times", points=points, split="clock")
    for one, other in zip(exact["results"], kept["results"], strict=True):
        assert one["parts"] == pytest.approx(other["parts"], abs=1e-3), one["step"]
        assert one["clock_steps_count"] == other["clock_steps_count"] == one["steps_count"]
        [held, held_then] = one["gpu_wait_by"][0], other["gpu_wait_by"][0]
        assert held["seconds"] == pytest.approx(held_then.pop("seconds"), abs=1e-3)
        assert held_then == {"workload": "trainer-b", "run_id": "run-b", "operation": OPTIM_STEP}
    middle = kept["results"][2]
    assert sum(middle["parts"].values()) == pytest.approx(middle["wall_seconds"], abs=0.01)
    assert middle["parts"]["gpu_wait"] == pytest.approx(0.25, abs=0.01)


def test_where_time_went_of_steps_that_are_not_kept_is_unknown(
    admin_client: Client, writer: RecordWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_steps(writer)
    take_snapshot()
    StepTime.objects.filter(step__lt=20).delete()
    monkeypatch.setattr("telemetry_app.inspection.step_times.EXACT_STEPS", 8)
    found = read(admin_client, "step-times", split="clock")["results"]
    assert (found[5]["parts"], found[5]["clock_steps_count"]) == (None, 0)
    assert found[5]["wall_seconds"] == pytest.approx(2.0, abs=0.01)
    assert found[25]["parts"] is not None


def test_only_who_asks_where_time_went_is_told(admin_client: Client, writer: RecordWriter) -> None:
    put_steps(writer, 4)
    answer = read(admin_client, "step-times")
    assert (answer["parts"], answer["results"][0]["parts"]) == ([], None)


def test_where_time_went_comes_as_a_table(admin_client: Client, writer: RecordWriter) -> None:
    put_steps(writer, 4)
    answer = admin_client.get(f"{BASE}step-times.csv", {"from": "1", "to": "2", "split": "clock"})
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))  # type: ignore[attr-defined]
    seconds = [float(row["seconds"]) for row in rows if row["step"] == "1"]
    assert [row["part"] for row in rows if row["step"] == "1"] == list(PARTS)
    assert sum(seconds) == pytest.approx(2.0, abs=0.01)


def test_a_range_of_old_steps_comes_from_history_alone(
    admin_client: Client, writer: RecordWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry_app.inspection.step_times.EXACT_STEPS", 4)
    put_steps(writer)
    take_snapshot()
    writer.client.flushdb()
    answer = read(admin_client, "step-times", **{"from": 5, "to": 20})
    assert [point["step"] for point in answer["results"]] == list(range(5, 21))
    assert walls(answer) == [2.0] * 16


def test_steps_behind_a_gap_have_no_wall_time(
    admin_client: Client, writer: RecordWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry_app.inspection.step_times.EXACT_STEPS", 4)
    put_steps(writer)
    take_snapshot()
    writer.client.flushdb()
    StepAggregate.objects.filter(step=9).delete()
    points = {point["step"]: point for point in read(admin_client, "step-times")["results"]}
    assert 9 not in points
    assert (points[10]["wall_seconds"], points[10]["wall_max_step"]) == (None, None)


def test_an_endless_op_keeps_the_sums_finite(admin_client: Client, writer: RecordWriter) -> None:
    writer.operations(*(op(OPTIM_STEP, at=time.time(), step=n, elapsed_seconds=1.7e308) for n in range(4)))
    writer.steps(4)
    take_snapshot()
    answer = read(admin_client, "step-times", points=1)
    assert answer["results"][0]["operations"]["optim_step"]["seconds"] > 1e100


@pytest.mark.parametrize("query", [{"from": "x"}, {"points": "0"}, {"points": "2001"}, {"form": "1"}, {"split": "x"}])
def test_a_bad_parameter_is_refused_by_name(admin_client: Client, writer: RecordWriter, query: dict[str, str]) -> None:
    put_steps(writer, 2)
    answer = admin_client.get(f"{BASE}step-times", query)
    assert answer.status_code == 400
    assert next(iter(query)) in answer.json()["errors"][0]["detail"]


@pytest.mark.parametrize("path", ["step-times", "step-times.csv", "metrics.csv"])
def test_only_those_who_may_read_are_answered(client: Client, writer: RecordWriter, path: str) -> None:
    put_steps(writer, 2)
    assert client.get(BASE + path).status_code == 401
    client.force_login(get_user_model().objects.create_user("nobody"))
    assert client.get(BASE + path).status_code == 403


def test_what_is_shown_comes_as_a_table(admin_client: Client, writer: RecordWriter) -> None:
    put_steps(writer, 4)
    answer = admin_client.get(f"{BASE}step-times.csv", {"from": "1", "to": "2"})
    assert answer.headers["Content-Disposition"] == 'attachment; filename="step-times.csv"'
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))  # type: ignore[attr-defined]
    assert [(row["step"], row["operation"]) for row in rows] == [
        ("1", "forward_backward"), ("1", "optim_step"), ("2", "forward_backward"), ("2", "optim_step"),
    ]  # fmt: skip
    answer = admin_client.get(f"{BASE}metrics.csv", {"names": "loss:mean", "from": "1", "to": "2"})
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))  # type: ignore[attr-defined]
    assert [(row["name"], row["step"], row["mean"]) for row in rows] == [
        ("loss:mean", "1", "8.9"), ("loss:mean", "2", "8.8"),
    ]  # fmt: skip


def test_an_outage_of_both_is_no_empty_plot(admin_client: Client, redis_out: None) -> None:
    answer = admin_client.get(f"{BASE}step-times")
    assert answer.status_code == 503
    assert "Redis can't be read" in answer.json()["errors"][0]["detail"]


def test_six_runs_are_compared_and_the_others_named(admin_client: Client, writer: RecordWriter) -> None:
    put_steps(writer, 2)
    take_snapshot()
    ids = [RUN, "<script>alert(1)</script>", *(f"run-{n}" for n in range(6))]
    page = admin_client.get("/admin/telemetry_app/run/compare/", {"run": ids}).content.decode()
    assert page.count('class="p-run"') == 6
    assert "2 of those named are left out" in page
    assert "<script>alert" not in page


def test_chosen_runs_lead_to_their_comparison(admin_client: Client, writer: RecordWriter) -> None:
    put_steps(writer, 2)
    take_snapshot()
    answer = admin_client.post("/admin/telemetry_app/run/", {"action": "compare", "_selected_action": [RUN]})
    assert answer.headers["Location"] == "/admin/telemetry_app/run/compare/?run=run-a"
