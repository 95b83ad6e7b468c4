"""Steps of which history keeps no op record any more, and steps that a snapshot takes while one asks."""

from __future__ import annotations

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app import readers
from telemetry_app.checked_records import Checked
from telemetry_app.grouping import group_steps
from telemetry_app.inspection.sources import RunSources, run_sources
from telemetry_app.inspection.steps import _aggregates, _Span, answer_steps
from telemetry_app.instants import from_unix, rfc3339
from telemetry_app.models import Operation, Run, StepAggregate
from telemetry_app.readers import LiveRun
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, START, op, step_of_ops
from tests.support.snapshots import all_at_once, store_steps
from tests.telemetry_app.api.conftest import run_path
from tests.telemetry_app.api.test_steps import eventful_run, put
from tests.telemetry_app.test_step_aggregates import RECORDS, plain, row_of
from workers_client.wire import FORWARD_BACKWARD
from workers_client.wire_worker import Ledger

pytestmark = pytest.mark.django_db
STEPS = run_path(RUN, "/steps")
LIST = f"open_rl:operations:{RUN}"


# --- Details gone ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("query", [{}, {"last": 3}, {"before": 5, "last": 2}, {"before": 8}])
def test_steps_are_the_same_once_their_op_rows_are_removed(api, writer, now, query):
    put(writer, eventful_run(now), steps=8)
    expected = api.results(STEPS, **query)
    take_snapshot()
    Operation.objects.all().delete()
    writer.client.flushdb()
    answer = api.answer(STEPS, **query)
    assert (answer["results"], answer["coverage"]["source"]) == (expected, "history")


@pytest.mark.parametrize("cut", [1, 6, 17, 31])
def test_steps_are_joined_from_redis_and_from_what_is_left_of_them(api, writer, now, cut):
    put(writer, eventful_run(now), steps=8)
    expected = api.results(STEPS)
    take_snapshot()
    Operation.objects.all().delete()
    writer.client.ltrim(LIST, cut, -1)
    assert api.results(STEPS) == expected


@pytest.mark.parametrize("taken", [3, 14, 30])
def test_what_no_snapshot_took_is_added_to_what_is_left(api, writer, now, taken):
    records = eventful_run(now)
    put(writer, records, steps=8)
    expected = api.results(STEPS)
    writer.client.delete(LIST)
    writer.operations(*records[:taken])
    take_snapshot()
    Operation.objects.all().delete()
    writer.operations(*records[taken:])
    assert api.results(STEPS) == expected
    writer.client.ltrim(LIST, taken, -1)
    assert api.results(STEPS) == expected


def test_a_late_op_of_a_step_whose_details_are_gone_is_added(api, writer, now):
    put(writer, step_of_ops(0, at=now - 90), steps=1)
    take_snapshot()
    Operation.objects.all().delete()
    writer.operations(op(at=now - 95, step=0))
    counts = [api.results(STEPS)[0]["operations"][FORWARD_BACKWARD]["count"]]
    take_snapshot()
    counts.append(api.results(STEPS)[0]["operations"][FORWARD_BACKWARD]["count"])
    assert counts == [2, 2]


# --- While a snapshot takes them ------------------------------------------------------------------------------
def test_ops_that_a_snapshot_takes_meanwhile_count_once(writer, now):
    put(writer, step_of_ops(0, at=now - 90), steps=1)
    take_snapshot()
    writer.client.delete(LIST)
    put(writer, [op(at=now - 80, step=1), op(at=now - 79, step=1)], steps=1)
    sources = run_sources(RUN)
    take_snapshot()
    groups = answer_steps(sources, None, last=5).groups
    assert [group.operations[FORWARD_BACKWARD].count for group in groups] == [1, 2]


def test_a_record_told_again_after_its_first_copy_left_redis_counts_once(api, writer, now):
    records = step_of_ops(0, at=now - 90)
    put(writer, records, steps=1)
    take_snapshot()
    writer.client.delete(LIST)
    writer.operations(records[0], op(at=now - 80, step=1))
    counts = [step["operations"][FORWARD_BACKWARD]["count"] for step in api.results(STEPS)]
    assert counts == [1, 1]


def test_a_stored_op_of_a_wrong_clock_ended_when_it_was_received(api, writer, now):
    in_2040 = op(at=now + 14 * 365 * 86_400, step=0)
    put(writer, [*step_of_ops(0, at=now - 5), in_2040], steps=1)
    take_snapshot()
    received_at = rfc3339(Operation.objects.get(record_id=in_2040.id).at)
    live = api.results(STEPS)
    writer.client.flushdb()
    assert live == api.results(STEPS)
    assert [step["finished_at"] for step in live] == [received_at]


def test_a_snapshot_between_the_two_sources_makes_nothing_new(writer, now, monkeypatch):
    put(writer, step_of_ops(0, at=now - 90), steps=1)
    take_snapshot()
    original = readers.read_run

    def read_and_take(run_id):
        writer.operations(op(at=now - 80, step=1))
        live = original(run_id)
        writer.operations(op(at=now - 79, step=1))
        take_snapshot()
        return live

    monkeypatch.setattr(readers, "read_run", read_and_take)
    assert len(run_sources(RUN).new_operations) == 1


# --- Any of it ------------------------------------------------------------------------------------------------
@given(st.lists(RECORDS, max_size=14), st.data())
def test_both_sources_give_the_steps_of_all_records(records, data):
    """However much is stored, however much of that Redis still has, and whether the op rows are there or not."""
    taken = data.draw(st.integers(0, len(records)))
    cut = data.draw(st.integers(0, taken))
    completed = data.draw(st.integers(0, 5))
    last, before = data.draw(st.integers(1, 5)), data.draw(st.none() | st.integers(0, 5))
    for model in (StepAggregate, Operation, Run):
        model.objects.all().delete()
    Operation.objects.bulk_create(map(row_of, records[:taken]))
    store_steps(RUN, [(record.step, record) for record in records[:taken]])
    row = Run.objects.create(
        run_id=RUN,
        first_seen_at=from_unix(START),
        last_activity_at=from_unix(START),
        operations_count=taken,
        steps_completed=completed,
    )
    if data.draw(st.booleans()):
        Operation.objects.all().delete()
    sources = RunSources(RUN, live_run(records[cut:], completed), row, new_operations=records[taken:])
    expected = [
        group
        for group in group_steps(up_to(records, before), steps_completed=completed)
        if is_below(group.step, before)
    ]
    assert plain(answer_steps(sources, None, last=last, before=before).groups) == plain(expected[-last:])


def up_to(records, end):
    return [record for record in records if end is None or record.step <= end]


def is_below(step, before):
    return before is None or step < before


def live_run(records, completed):
    return LiveRun(
        run_id=RUN, last_activity_at=START, operations=Checked(list(records)), samples=Checked(), ledger=Ledger(),
        steps_completed=completed, step_times=[], queue_depth=None,
    )  # fmt: skip


def test_a_span_of_steps_is_read_by_one_index_in_the_order_of_steps():
    for run in (RUN, "run-b"):
        records = [record for step in range(4_000) for record in step_of_ops(step, at=START + step, run_id=run)]
        store_steps(run, [(record.step, record) for record in records])
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {StepAggregate._meta.db_table}")
    for span in (_Span(wanted=22, end=None), _Span(wanted=22, end=2_000)):
        plan = _aggregates(RUN, span).explain()
        assert "step_aggregate_once" in plan
        assert "Seq Scan on telemetry_app_stepaggregate" not in plan
        assert _aggregates(RUN, span).count() == 44


# --- At once --------------------------------------------------------------------------------------------------
@pytest.mark.django_db(transaction=True)
def test_snapshots_at_once_count_each_op_once(writer, now):
    for step in range(30):
        writer.operations(*step_of_ops(step, at=now - 90 + step))
    errors = all_at_once(4, take_snapshot)
    writer.operations(op(at=now - 50, step=29))
    errors += all_at_once(4, take_snapshot)
    take_snapshot()
    assert errors == []
    counts = dict(StepAggregate.objects.filter(operation=FORWARD_BACKWARD).values_list("step", "count"))
    assert counts == {**dict.fromkeys(range(29), 1), 29: 2}
