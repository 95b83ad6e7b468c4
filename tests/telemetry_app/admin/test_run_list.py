"""The list of runs: what its rows show, saved filters, search, and what people say of a run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from telemetry_app.admin import run_list_filters
from telemetry_app.inspection.run_previews import newest_reading, run_previews
from telemetry_app.models import Run, StepAggregate
from telemetry_app.snapshots import take_snapshot
from tests.support.records import op

pytestmark = pytest.mark.django_db
RUNS = "/admin/telemetry_app/run/"


def put(run_id: str, **fields: Any) -> Run:
    """Store a run that was active just now."""
    now = timezone.now()
    return Run.objects.create(**{"run_id": run_id, "first_seen_at": now, "last_activity_at": now, **fields})


def put_steps(run_id: str, ends: list[float], metrics: dict[str, float] | None = None, **fields: Any) -> None:
    """Store steps of a run that ended so many seconds after an instant, with one value of each metric."""
    metrics = metrics or {}
    fields = {"metric_names": list(metrics), "metric_numbers": list(metrics.values()), **fields}
    start = timezone.now() - timedelta(hours=1)
    for step, seconds in enumerate(ends):
        at = start + timedelta(seconds=seconds)
        StepAggregate.objects.create(
            run_id=run_id, step=step, count=1, started_at=at, finished_at=at, **{"operation": "optim_step", **fields}
        )  # fmt: skip


def shown_ids(client: Client, query: str) -> set[str]:
    return {run.pk for run in client.get(RUNS + query).context["cl"].result_list}


@pytest.fixture
def operator(django_user_model: Any) -> Any:
    """A user who keeps the site running."""
    user = django_user_model.objects.create_user("olga", is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
    return user


# --- Rows -----------------------------------------------------------------------------------------------------
def test_a_row_shows_step_times_loss_and_reward() -> None:
    put_steps("run-a", [0.0, 2.0, 5.0], {"loss:mean": 0.25, "loss:sum": 9.0})
    put_steps("run-b", [0.0], {"grad_norm:mean": 1.0})
    put_steps(
        "run-a", [0.0], operation="forward", metric_names=["kl", "reward:mean"],
        metric_numbers=[4, 4, 0.1, 1, 0.2, 2, 0.3, 3, 0.25, 2.5, 1.0, 1.0],
    )  # fmt: skip
    found = run_previews(["run-a", "run-b", "run-c"])
    assert found["run-a"].step_seconds == pytest.approx([2.0, 3.0])
    assert (found["run-a"].loss.name, found["run-a"].loss.value) == ("loss:mean", 0.25)
    assert found["run-a"].reward.value == 2.5
    assert found["run-b"].loss is None
    assert found["run-c"].step_seconds == []


def test_a_step_that_is_not_stored_leaves_no_false_step_time() -> None:
    put_steps("run-a", [0.0, 1.0, 2.0, 3.0])
    StepAggregate.objects.filter(step=1).delete()
    assert run_previews(["run-a"])["run-a"].step_seconds == pytest.approx([1.0])


def test_a_loss_that_is_not_finite_is_told_as_such(admin_client: Client) -> None:
    put("run-a")
    put_steps("run-a", [0.0], nonfinite={"loss:mean": 1})
    assert newest_reading({"loss:sum": 1.0}, {"loss:mean": 1}, "loss").value is None
    assert "not finite" in admin_client.get(RUNS).content.decode()


def test_the_list_takes_as_many_queries_for_many_runs_as_for_one(admin_client: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            admin_client.get(RUNS)
        return len(captured)

    put("run-a")
    put_steps("run-a", [0.0, 1.0])
    admin_client.get(RUNS)
    with_one = queries()
    for number in range(20):
        put(f"run-{number}", tags=["a", "b"])
        put_steps(f"run-{number}", [0.0, 1.0, 2.0], {"loss": 1.0})
    assert queries() == with_one


# --- Which runs -----------------------------------------------------------------------------------------------
def test_saved_filters_find_what_they_say_and_count_it(client: Client, operator: Any) -> None:
    client.force_login(operator)
    old = timezone.now() - timedelta(days=1)
    put("mine", owner=operator, state="progressing")
    put("stuck", state="stuck", last_activity_at=old)
    put("idle", state="idle", last_activity_at=old, pinned=True)
    wanted = {
        "": {"mine", "stuck", "idle"},
        "mine": {"mine"},
        "trouble": {"stuck"},
        "active": {"mine"},
        "pinned": {"idle"},
    }
    for word, expected in wanted.items():
        assert shown_ids(client, f"?show={word}" if word else "") == expected
    counts = {entry["word"]: entry["count"] for entry in client.get(RUNS).context["saved_filters"]}
    assert counts == {word: len(expected) for word, expected in wanted.items()}


def test_saved_filters_count_up_to_a_limit_and_say_so(client: Client, operator: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(run_list_filters, "COUNT_LIMIT", 2)
    for number in range(3):
        put(f"run-{number}")
    client.force_login(operator)
    text = client.get(RUNS).content.decode()
    assert 'All <span class="t-count">2+</span>' in text
    assert 'Pinned <span class="t-count">0</span>' in text


@pytest.mark.parametrize("words", ["QWEN3", "baby", "ablat", "warm-"])
def test_runs_are_found_by_any_part_of_an_id_a_name_or_a_tag(admin_client: Client, words: str) -> None:
    put("Qwen/Qwen3-8B", name="My Baby Run", tags=["ablation", "warm-start"])
    put("other", name="else", tags=["x"])
    assert shown_ids(admin_client, f"?q={words}") == {"Qwen/Qwen3-8B"}


def test_runs_are_found_by_a_tag(admin_client: Client) -> None:
    put("run-a", tags=["a", "b"])
    put("run-b", tags=["ab"])
    assert shown_ids(admin_client, "?tag=a") == {"run-a"}


# --- What people say of a run ---------------------------------------------------------------------------------
def test_an_operator_describes_a_run_and_changes_nothing_else(client: Client, operator: Any) -> None:
    client.force_login(operator)
    put("run/a", state="stuck", steps_completed=7)
    fields = {
        "name": "Good one",
        "tags": " a , b,a,, c",
        "notes": "first\nsecond",
        "owner": operator.pk,
        "pinned": "on",
    }
    answer = client.post(f"{RUNS}run_2Fa/describe/", {**fields, "state": "idle", "steps_completed": "1"})
    assert answer.status_code == 302
    run = Run.objects.get()
    assert (run.name, run.tags, run.owner, run.pinned) == ("Good one", ["a", "b", "c"], operator, True)
    assert run.notes.split() == ["first", "second"]
    assert (run.state, run.steps_completed) == ("stuck", 7)
    assert "Good one" in client.get(RUNS).content.decode()


@pytest.mark.parametrize("tags", ["x" * 51, ",".join(f"t{number}" for number in range(21)), "nul\x00"])
def test_tags_that_are_too_many_too_long_or_no_text_are_refused(admin_client: Client, tags: str) -> None:
    put("run-a", tags=["kept"])
    assert admin_client.post(f"{RUNS}run-a/describe/", {"tags": tags}).status_code == 200
    assert Run.objects.get().tags == ["kept"]


def test_who_may_only_look_describes_nothing(client: Client, django_user_model: Any) -> None:
    viewer = django_user_model.objects.create_user("vera", is_staff=True)
    viewer.groups.add(Group.objects.get(name="viewer"))
    client.force_login(viewer)
    put("run-a")
    assert client.get(RUNS).status_code == 200
    assert client.get(f"{RUNS}run-a/describe/").status_code == 403
    assert client.post(f"{RUNS}run-a/describe/", {"name": "mine now"}).status_code == 403
    assert Run.objects.get().name == ""


def test_a_snapshot_under_way_does_not_undo_what_was_edited_meanwhile(
    writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.operations(op(at=1_779_264_000.0))
    take_snapshot()

    def edit_then_count(*args: Any) -> None:
        Run.objects.update(name="edited", tags=["kept"], pinned=True)

    monkeypatch.setattr("telemetry_app.run_snapshot._count_requests", edit_then_count)
    writer.operations(op(at=1_779_264_001.0))
    take_snapshot()
    run = Run.objects.get()
    assert (run.name, run.tags, run.pinned) == ("edited", ["kept"], True)


def test_the_id_of_a_run_stands_over_its_form_as_it_is(admin_client: Client) -> None:
    Run.objects.create(run_id="small-run", first_seen_at=timezone.now(), last_activity_at=timezone.now())
    shown = admin_client.get("/admin/telemetry_app/run/small-run/describe/").content.decode()
    assert ">small-run</a>" in shown
    assert "Small-run" not in shown
