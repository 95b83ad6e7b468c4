"""What holds of any records whatever, however they come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.grouping import group_steps
from tests.support.records import START, foreign_op, op
from workers_client.wire import FORWARD, FORWARD_BACKWARD, OPTIM_STEP

OPERATIONS = st.sampled_from([FORWARD_BACKWARD, OPTIM_STEP, FORWARD, "save_weights", "load_weights"])
OP_RECORDS = st.builds(
    lambda make, name, offset, **fields: make(name, at=START + offset, **fields),
    st.sampled_from([op, foreign_op]),
    OPERATIONS,
    st.integers(0, 50),
    status=st.sampled_from(["succeeded", "succeeded", "failed", "cancelled"]),
    elapsed_seconds=st.none() | st.integers(0, 100).map(float),
    queue_seconds=st.none() | st.integers(0, 100).map(float),
    enqueued_at=st.none() | st.integers(-50, 50).map(lambda offset: START + offset),
    batch=st.none() | st.sampled_from(["b1", "b2"]),
    metrics=st.dictionaries(st.sampled_from(["loss", "kl"]), st.integers(-9, 9).map(float)),
    nonfinite=st.dictionaries(st.sampled_from(["grad_norm"]), st.just("nan")),
)


@st.composite
def runs(draw):
    """Draw the records of one run, some of them stamped with a step."""
    records = draw(st.lists(OP_RECORDS, max_size=20))
    stamps = draw(st.lists(st.none() | st.integers(0, 4), min_size=len(records), max_size=len(records)))
    return [record if stamp is None else replaced(record, stamp) for record, stamp in zip(records, stamps, strict=True)]


def replaced(record, step):
    return type(record)(**{name: getattr(record, name) for name in record.__dataclass_fields__} | {"step": step})


@given(runs(), st.randoms(use_true_random=False), st.none() | st.integers(0, 6))
def test_the_order_of_records_changes_nothing(records, random, steps_completed):
    shuffled = records.copy()
    random.shuffle(shuffled)
    expected = group_steps(records, steps_completed=steps_completed)
    assert group_steps(shuffled, steps_completed=steps_completed) == expected


@given(runs(), st.data())
def test_records_delivered_twice_change_nothing(records, data):
    again = data.draw(st.lists(st.sampled_from(records), max_size=5)) if records else []
    assert group_steps(records + again) == group_steps(records)


@given(runs(), st.none() | st.integers(0, 6))
def test_each_record_is_in_exactly_one_group(records, steps_completed):
    groups = group_steps(records, steps_completed=steps_completed)
    assert sum(part.count for group in groups for part in group.operations.values()) == len(records)
    assert sum(group.failures for group in groups) == sum(record.status == "failed" for record in records)


@given(runs())
def test_steps_rise_and_no_group_is_empty(records):
    groups = group_steps(records)
    steps = [group.step for group in groups]
    assert steps == sorted(set(steps))
    assert all(group.operations for group in groups)


@given(runs())
def test_times_are_in_order_and_never_negative(records):
    for group in group_steps(records):
        assert group.finished_at is None or group.finished_at >= group.started_at
        assert group.wall_seconds is None or group.wall_seconds >= 0


@given(runs())
def test_a_spread_lies_between_its_bounds(records):
    for group in group_steps(records):
        for part in group.operations.values():
            for spread in part.metrics.values():
                if spread.count:
                    assert spread.min <= spread.last <= spread.max
                    assert spread.min - 1e-9 <= spread.mean <= spread.max + 1e-9
                else:
                    assert (spread.min, spread.mean, spread.max, spread.last) == (None,) * 4
