"""What is kept of each step equals what grouping all its records tells, however they came."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.grouping import group_steps, steps_of
from telemetry_app.instants import from_unix
from telemetry_app.models import Operation, Run, StepAggregate
from telemetry_app.step_aggregates import BATCHES_REMEMBERED, groups_of
from tests.support.records import RUN, START, op, step_of_ops
from tests.support.snapshots import store_steps
from workers_client.wire import FORWARD, FORWARD_BACKWARD, OPTIM_STEP

pytestmark = pytest.mark.django_db

OPERATIONS = st.sampled_from([FORWARD_BACKWARD, FORWARD_BACKWARD, OPTIM_STEP, FORWARD, "save_weights"])
NUMBERS = st.integers(-9, 9).map(float) | st.sampled_from([1.7e308, -1.7e308, 0.1])
RECORDS = st.builds(
    lambda name, offset, **fields: op(name, at=START + offset / 10, **fields),
    OPERATIONS,
    st.integers(0, 30),
    step=st.integers(0, 3),
    status=st.sampled_from(["succeeded", "succeeded", "failed", "cancelled"]),
    elapsed_seconds=st.none() | st.integers(0, 100).map(float),
    queue_seconds=st.none() | st.integers(0, 100).map(float),
    enqueued_at=st.none() | st.integers(-50, 50).map(lambda offset: START + offset),
    started_at=st.none() | st.integers(-50, 50).map(lambda offset: START + offset),
    batch=st.none() | st.sampled_from(["b1", "b2"]),
    metrics=st.dictionaries(st.sampled_from(["loss", "kl"]), NUMBERS),
    nonfinite=st.dictionaries(st.sampled_from(["grad_norm", "loss"]), st.just("nan")),
)


def store(records):
    """Store records as a snapshot does: the rows that are new, then their steps."""
    stored = set(Operation.objects.values_list("record_id", flat=True))
    new = [record for record in {record.id: record for record in records}.values() if record.id not in stored]
    with transaction.atomic():
        Operation.objects.bulk_create(map(row_of, new))
        store_steps(RUN, [(record.step, record) for record in new])


def row_of(record):
    same = ("run_id", "operation", "status", "step", "elapsed_seconds", "queue_seconds", "nonfinite")
    return Operation(
        record_id=record.id,
        at=from_unix(record.at),
        enqueued_at=from_unix(record.enqueued_at),
        started_at=from_unix(record.started_at),
        batch=record.batch or "",
        metrics=dict(record.metrics),
        **{name: getattr(record, name) for name in same},
    )


def stored_steps(steps_completed=None):
    return steps_of(groups_of(StepAggregate.objects.filter(run_id=RUN)), steps_completed=steps_completed)


def plain(steps):
    """Steps as values that can be compared: floats of sums and means to nine digits."""
    return [
        (
            step.step, step.completed, step.started_at, step.finished_at, step.wall_seconds, step.failures,
            [
                (
                    name, part.count, part.failures, part.cancelled, rounded(part.seconds),
                    rounded(part.queue_seconds), part.nonfinite, part.first_enqueued_at,
                    {n: (s.count, s.min, mean_of(s), s.max, s.last) for n, s in sorted(part.metrics.items())},
                )
                for name, part in step.operations.items()
            ],
        )
        for step in steps
    ]  # fmt: skip


def mean_of(spread):
    """The mean in parts of the largest value: beside 1.7e308 and -1.7e308 the others are lost in any order."""
    largest = max(abs(spread.min or 0.0), abs(spread.max or 0.0))
    return spread.mean if not largest else round(spread.mean / largest, 9) + 0.0


def rounded(value):
    return round(value, 6)


def assert_each_row_counts_once():
    stored = Operation.objects.values_list("step", "operation").annotate(Count("id")).order_by()
    assert {(step, name): count for step, name, count in stored} == {
        (row.step, row.operation): row.count for row in StepAggregate.objects.all()
    }


@given(st.lists(RECORDS, max_size=16), st.data(), st.none() | st.integers(0, 5))
def test_any_split_into_snapshots_gives_the_steps_of_all_records(records, data, steps_completed):
    StepAggregate.objects.all().delete()
    Operation.objects.all().delete()
    order = data.draw(st.permutations(records))
    again = data.draw(st.lists(st.sampled_from(records), max_size=4)) if records else []
    while order:
        size = data.draw(st.integers(1, len(order)))
        store(order[:size])
        order = order[size:]
        store(again)
    assert_each_row_counts_once()
    assert plain(stored_steps(steps_completed)) == plain(group_steps(records, steps_completed=steps_completed))


# --- The rows -------------------------------------------------------------------------------------------------
def test_a_row_holds_what_its_records_amount_to():
    store(
        [
            op(
                at=START + n, step=7, elapsed_seconds=2.0, queue_seconds=0.5, enqueued_at=START - n,
                started_at=START - 1 + n, status=status, metrics={"loss:sum": float(n)}, nonfinite={"kl": "nan"},
            )
            for n, status in enumerate(["succeeded", "failed", "cancelled"])
        ]
    )  # fmt: skip
    row = StepAggregate.objects.get()
    assert (row.run_id, row.step, row.operation) == (RUN, 7, FORWARD_BACKWARD)
    assert (row.count, row.failures, row.cancelled, row.seconds, row.queue_seconds) == (3, 1, 1, 6.0, 1.5)
    assert (row.metric_names, row.metric_numbers) == (["loss:sum"], [3, 0.0, 1.0, 2.0, 2.0, START + 2])
    assert row.nonfinite == {"kl": 3}
    instants = (row.first_enqueued_at, row.started_at, row.finished_at)
    assert tuple(at.timestamp() - START for at in instants) == (-2, -1, 2)


def test_a_metric_of_a_single_op_is_kept_as_its_value():
    store([op(at=START, step=0, metrics={"loss": 1.5, "kl": 0.25})])
    row = StepAggregate.objects.get()
    assert (row.metric_names, row.metric_numbers) == (["loss", "kl"], [1.5, 0.25])


def test_the_numbers_of_many_metrics_stand_side_by_side():
    store([op(at=START + n, step=0, metrics={"loss": 1.0 + n, "kl": 10.0 * n}) for n in range(3)])
    row = StepAggregate.objects.get()
    assert row.metric_names == ["loss", "kl"]
    assert row.metric_numbers == [3, 3, 1.0, 0.0, 2.0, 10.0, 3.0, 20.0, 3.0, 20.0, START + 2, START + 2]


def test_metrics_that_not_all_ops_report_have_counts_and_instants_of_their_own():
    store([op(at=START, step=0, metrics={"loss": 1.0, "kl": 0.5}), op(at=START + 1, step=0, metrics={"loss": 3.0})])
    row = StepAggregate.objects.get()
    assert row.metric_names == ["loss", "kl"]
    assert row.metric_numbers == [2, 1, 1.0, 0.5, 2.0, 0.5, 3.0, 0.5, 3.0, 0.5, START + 1, START]


def test_a_step_without_metrics_has_empty_arrays():
    store([op(at=START, step=0, metrics={}, nonfinite={"loss": "nan"})])
    row = StepAggregate.objects.get()
    assert (row.metric_names, row.metric_numbers, row.nonfinite) == ([], [], {"loss": 1})


def test_instants_are_kept_to_the_microsecond_and_texts_to_the_letter():
    record = op("op\twith\\ \u2028\n☃", at=1_779_264_000.123457, step=0, enqueued_at=253_402_300_799.0,
                metrics={"a\"b": 1e300}, run_id=RUN)  # fmt: skip
    store([record])
    [(key, group)] = groups_of(StepAggregate.objects.all()).items()
    assert key == (0, record.operation)
    assert (group.finished_at, group.first_enqueued_at) == (record.at, record.enqueued_at)
    assert group.metrics['a"b'].last == 1e300


def test_thousands_of_steps_are_stored_at_once():
    store([record for step in range(1_500) for record in step_of_ops(step, at=START + step)])
    assert StepAggregate.objects.count() == 3_000
    assert_each_row_counts_once()


def test_a_batch_that_two_snapshots_take_counts_once():
    batch = [op(at=START + n, step=0, elapsed_seconds=10.0 + n, batch="b1") for n in range(4)]
    store(batch[:2])
    store(batch[2:])
    assert StepAggregate.objects.get().seconds == 13.0


def test_a_late_record_of_a_step_whose_details_are_gone_is_added():
    store([op(at=START + n, step=0, elapsed_seconds=1.0, metrics={"loss": float(n)}) for n in (1, 3)])
    Operation.objects.all().delete()
    store([op(at=START + 2, step=0, elapsed_seconds=1.0, metrics={"loss": 8.0})])
    [group] = groups_of(StepAggregate.objects.all()).values()
    loss = group.metrics["loss"]
    assert (group.count, group.seconds) == (3, 3.0)
    assert (loss.count, loss.min, loss.mean, loss.max, loss.last) == (3, 1.0, 4.0, 8.0, 3.0)


def test_a_late_op_of_a_batch_whose_details_are_gone_adds_no_second_time():
    store([op(at=START, step=0, elapsed_seconds=1e300, batch="b1"), op(at=START, step=0, elapsed_seconds=2.0)])
    Operation.objects.all().delete()
    for late in (1, 2):
        store([op(at=START + late, step=0, elapsed_seconds=2e300, batch="b1")])
        Operation.objects.all().delete()
    row = StepAggregate.objects.get()
    assert (row.count, row.seconds) == (4, 2e300)


def test_a_row_remembers_its_newest_batches():
    store([op(at=START + n, step=0, elapsed_seconds=1.0, batch=f"b{n}") for n in range(BATCHES_REMEMBERED)])
    store([op(at=START - 1, step=0, elapsed_seconds=1.0, batch="old")])
    store([op(at=START + 99, step=0, elapsed_seconds=1.0, batch="new")])
    names = [name for name, _ in StepAggregate.objects.get().batches]
    assert names == [f"b{n}" for n in range(2, BATCHES_REMEMBERED)] + ["old", "new"]


def test_other_runs_and_steps_are_left_alone():
    store([op(at=START, step=0), op(at=START, step=1), op(at=START, step=0, operation=FORWARD)])
    StepAggregate.objects.update(run_id="run-b")
    store([op(at=START + 1, step=0)])
    assert sorted(StepAggregate.objects.values_list("run_id", "step", "operation", "count")) == [
        (RUN, 0, FORWARD_BACKWARD, 1),
        ("run-b", 0, FORWARD, 1),
        ("run-b", 0, FORWARD_BACKWARD, 1),
        ("run-b", 1, FORWARD_BACKWARD, 1),
    ]


def test_more_records_need_no_more_queries():
    def queries(count):
        records = [op(at=START + n, step=n, batch="b1") for n in range(count)]
        store_steps(RUN, [(record.step, record) for record in records])
        with CaptureQueriesContext(connection) as captured:
            again = [op(at=START + n, step=n, batch="b1") for n in range(count)]
            store_steps(RUN, [(record.step, record) for record in again])
        return len(captured)

    assert queries(2) == queries(200)


def test_nothing_new_writes_nothing(django_assert_num_queries):
    with django_assert_num_queries(0):
        store_steps(RUN, [])


# --- Rows of earlier versions: without aggregates, and with their metrics as JSON --------------------------------
BEFORE, AFTER = "0022_alerts_at", "0024_fill_metric_arrays"
FILL = import_module("telemetry_app.migrations.0006_fill_step_aggregates").fill
ARRAYS = import_module(f"telemetry_app.migrations.{AFTER}")


def migrate(name):
    """Bring the tables to a migration, within the test's transaction; return the models of that time."""
    executor = MigrationExecutor(connection)
    executor.migrate([("telemetry_app", name)])
    return MigrationExecutor(connection).loader.project_state([("telemetry_app", name)]).apps


@pytest.fixture
def old_apps():
    """The models from before the arrays, on tables of that time."""
    return migrate(BEFORE)


def add_run(records):
    Run.objects.create(run_id=RUN, first_seen_at=from_unix(START), last_activity_at=from_unix(START))
    Operation.objects.bulk_create(map(row_of, records))


def old_metrics(apps):
    rows = apps.get_model("telemetry_app", "StepAggregate").objects.order_by("step", "operation")
    return list(rows.values_list("step", "operation", "metrics"))


def test_op_rows_without_aggregates_are_counted(old_apps):
    records = [record for step in range(600) for record in step_of_ops(step, at=START + step, elapsed_seconds=2.0)]
    add_run(records[:9])
    FILL(old_apps, None)
    Operation.objects.bulk_create(map(row_of, records[9:]))
    for _ in range(2):
        FILL(old_apps, None)
    migrate(AFTER)
    assert_each_row_counts_once()
    assert plain(stored_steps()) == plain(group_steps(records))


def test_steps_whose_details_are_gone_are_left(old_apps):
    records = [*step_of_ops(0, at=START), op(at=START, step=0)]
    add_run(records)
    FILL(old_apps, None)
    Operation.objects.filter(record_id=records[0].id).delete()
    FILL(old_apps, None)
    migrate(AFTER)
    assert dict(StepAggregate.objects.values_list("operation", "count")) == {FORWARD_BACKWARD: 2, OPTIM_STEP: 1}


def test_metrics_as_json_become_arrays_and_come_back(old_apps, monkeypatch):
    monkeypatch.setattr(ARRAYS, "IDS_PER_STATEMENT", 2)
    records = [
        op(at=START + 0.1, step=0, metrics={"loss": 0.1, 'a"b': 1e300}),
        op(at=START + 1, step=1, metrics={"loss": 1.0, "kl": 0.1}),
        op(at=START + 2.5, step=1, metrics={"loss": 3.0, "kl": -0.3}),
        op(at=START + 3.123457, step=2, metrics={"loss": 1.7e308, "kl": 0.5}),
        op(at=START + 4, step=2, metrics={"loss": -1.7e308}, nonfinite={"kl": "nan"}),
        op(at=START + 5, step=3),
        op(at=START + 6, step=4, metrics={"loss": 2.0}),
        op(at=START + 7, step=4, metrics={}),
    ]
    add_run(records)
    FILL(old_apps, None)
    before = old_metrics(old_apps)
    for _ in range(2):
        migrate(AFTER)
        assert plain(stored_steps()) == plain(group_steps(records))
        assert {len(row.metric_numbers) for row in StepAggregate.objects.all()} == {0, 2, 6, 12}
        assert old_metrics(migrate(BEFORE)) == before
    migrate(AFTER)


def test_a_migration_of_no_rows_does_nothing(old_apps):
    migrate(AFTER)
    assert not StepAggregate.objects.exists()
