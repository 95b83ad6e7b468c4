"""What is kept of each step equals what grouping all its records tells, however they came."""

from __future__ import annotations

import math

import pytest
from django.db import transaction
from django.db.models import Count
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app import bulk, rows
from telemetry_app.grouping import group_steps, steps_of
from telemetry_app.models import Operation, StepAggregate
from telemetry_app.step_aggregates import groups_of, store_steps
from tests.support.records import RUN, START, op
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
    with transaction.atomic():
        values = [rows.operation_row(record, record.step) for record in records]
        inserted = bulk.insert_once(Operation, rows.OPERATION_COLUMNS, values, owner="run_id", returning=("record_id",))
        new = {record_id for (record_id,) in inserted}
        store_steps(RUN, [(record.step, record) for record in records if record.identity in new])


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
                    {n: (s.count, s.min, rounded(s.mean), s.max, s.last) for n, s in sorted(part.metrics.items())},
                )
                for name, part in step.operations.items()
            ],
        )
        for step in steps
    ]  # fmt: skip


def rounded(value):
    if value is None or abs(value) < 1e-9:
        return value and 0.0
    return round(value, 9 - math.floor(math.log10(abs(value)))) if abs(value) < 1e300 else f"{value:.6e}"


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
