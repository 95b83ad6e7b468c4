"""What a run's ops took outlives their records, and says what is expected of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.expectations import expectation
from telemetry_app.models import Run
from telemetry_app.op_history import MOST_COUNT, grown, learned_of
from telemetry_app.rates import percentile_95
from telemetry_app.run_facts import RunFacts
from tests.support.records import RUN, START, op, sample_group
from tests.support.snapshots import snapshot
from workers_client.wire import FORWARD_BACKWARD, SAMPLE
from workers_client.wire_worker import Ledger


def ops(seconds, **fields):
    return [op(at=START, elapsed_seconds=each, **fields) for each in seconds]


@given(st.lists(st.floats(0.01, 5_000), min_size=1, max_size=200), st.data())
def test_the_percentile_is_right_to_a_tenth_however_records_are_split(seconds, data):
    cut = data.draw(st.integers(0, len(seconds)))
    history = grown(grown({}, ops(seconds[:cut])), ops(seconds[cut:]))
    learned = learned_of(json.loads(json.dumps(history)))[FORWARD_BACKWARD]
    assert learned.records_count == len(seconds)
    exact = percentile_95(seconds)
    assert exact <= learned.percentile_95_seconds * 1.0001 <= exact * 1.1002


def test_the_newest_count_most():
    history = grown({}, ops([1.0] * 900))
    for _ in range(3):
        history = grown(history, ops([50.0] * 500))
    learned = learned_of(history)[FORWARD_BACKWARD]
    assert learned.records_count <= MOST_COUNT
    assert learned.percentile_95_seconds == pytest.approx(50, rel=0.1)


def test_a_large_batch_that_is_rare_is_expected_to_take_its_time():
    history = grown({}, [*ops([1.0] * 700, tokens=100), *ops([60.0] * 25, tokens=80_000)])
    learned = learned_of(history)[FORWARD_BACKWARD]
    assert learned.percentile_95_seconds == pytest.approx(1, rel=0.11)
    assert learned.limit_percentile_seconds == pytest.approx(60, rel=0.11)


def test_failed_ops_say_nothing_of_how_long_one_takes():
    assert learned_of(grown({}, ops([900.0], status="failed"))) == {}


def test_samples_are_expected_by_the_slowest_of_each_group():
    history = grown({}, [sample_group(at=START, seconds_max=90.0) for _ in range(20)])
    assert learned_of(history)[SAMPLE].percentile_95_seconds == pytest.approx(90, rel=0.1)


def test_what_history_knows_goes_before_fewer_records_at_hand():
    learned = learned_of(grown({}, ops([100.0] * 30)))
    facts = RunFacts(RUN, START, START, Ledger(), operations=ops([1.0] * 25), learned=learned)
    assert expectation(FORWARD_BACKWARD, facts).records_count == 30
    assert expectation(FORWARD_BACKWARD, facts).limit_seconds == pytest.approx(500, rel=0.1)
    assert expectation(FORWARD_BACKWARD, replace(facts, learned={})).limit_seconds == 60.0


@pytest.mark.django_db
def test_each_record_is_learned_once_and_redis_may_forget_it(writer):
    writer.operations(*ops([40.0] * 21))
    snapshot()
    snapshot(after_seconds=20)
    writer.client.flushdb()
    writer.operations(op(at=START + 30, elapsed_seconds=40.0))
    snapshot(after_seconds=40)
    learned = learned_of(Run.objects.get().op_seconds)[FORWARD_BACKWARD]
    assert (learned.records_count, learned.percentile_95_seconds) == (22, pytest.approx(40, rel=0.1))


def test_an_op_of_any_length_is_remembered():
    learned = learned_of(grown({}, ops([1e-300, 1e300, 1.7e308])))[FORWARD_BACKWARD]
    assert learned.records_count == 3
    assert learned.percentile_95_seconds == pytest.approx(1e9, rel=0.11)
