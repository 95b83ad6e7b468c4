"""The contract's keys, run ids and records."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import records
from workers_client import wire
from workers_client.codec import decode_object, encode_object
from workers_client.exceptions import MalformedRecordError
from workers_client.wire_values import LAST_INSTANT

# --- Strategies: what a worker may write ----------------------------------------------------------------------
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=40)
RUN_IDS = TEXT.filter(lambda text: wire.checked_run_id(text) == text)
NAMES = TEXT.filter(str.isprintable)
INSTANTS = st.floats(1, 4e9).map(lambda seconds: round(seconds, 6))
DURATIONS = st.floats(0, 1e9)
COUNTS = st.integers(0, 2**53)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def maybe(strategy):
    return st.none() | strategy


@st.composite
def operations(draw):
    nonfinite = draw(st.dictionaries(NAMES, st.sampled_from(["nan", "inf", "-inf"]), max_size=3))
    metrics = draw(st.dictionaries(NAMES.filter(lambda name: name not in nonfinite), NUMBERS, max_size=4))
    texts = (
        "id", "request_id", "role", "worker", "error_type", "error_category", "batch", "trace_id", "span_id", "pod",
        "pod_uid", "node", "runtime_id",
    )  # fmt: skip
    return wire.OpRecord(
        run_id=draw(RUN_IDS),
        operation=draw(TEXT),
        status=draw(st.sampled_from([status.value for status in wire.Status])),
        at=draw(INSTANTS),
        metrics=metrics,
        nonfinite=nonfinite,
        **{name: draw(maybe(TEXT)) for name in texts},
        **{name: draw(maybe(INSTANTS)) for name in ("enqueued_at", "started_at")},
        **{name: draw(maybe(DURATIONS)) for name in ("queue_seconds", "elapsed_seconds")},
        **{name: draw(maybe(COUNTS)) for name in ("step", "tokens", "datums")},
    )


FAILURES = st.builds(
    wire.SampleFailure,
    run_id=RUN_IDS,
    at=INSTANTS,
    kind=st.just("failure"),
    accepted_at=maybe(INSTANTS),
    **{name: maybe(TEXT) for name in ("id", "request_id", "worker", "source", "error_type")},
)
GROUPS = st.builds(
    wire.SampleGroup,
    run_id=RUN_IDS,
    at=INSTANTS,
    count=st.integers(1, 2**53),
    kind=st.just("group"),
    id=maybe(TEXT),
    worker=maybe(TEXT),
    tokens_sum=maybe(COUNTS),
    **{name: maybe(INSTANTS) for name in ("first_accepted_at", "first_answered_at")},
    **{name: maybe(DURATIONS) for name in ("seconds_sum", "seconds_max", "busy_seconds")},
)
TURN_OPS = st.builds(
    wire.TurnOp,
    name=TEXT,
    start=INSTANTS,
    end=INSTANTS,
    count=st.integers(1, 1_000),
    **{name: maybe(TEXT) for name in ("status", "run_id", "request_id")},
)
TURNS = st.builds(
    wire.TurnRecord,
    workload=TEXT,
    started_at=INSTANTS,
    at=INSTANTS,
    operation=st.just("gpu_turn"),
    requested_at=maybe(INSTANTS),
    ops=st.lists(TURN_OPS, max_size=3).map(tuple),
    **{name: maybe(TEXT) for name in ("id", "role", "worker", "runtime_id", "node", "pod_uid")},
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["failed", "group", "sample"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
FIELD_NAMES = sorted(
    {name for kind in (wire.OpRecord, wire.SampleFailure, wire.SampleGroup, wire.TurnRecord, wire.TurnOp)
     for name in kind.__dataclass_fields__}
)  # fmt: skip
ANY_OBJECT = st.dictionaries(st.sampled_from(FIELD_NAMES), JSON | INSTANTS, max_size=12)


# --- Round trips ----------------------------------------------------------------------------------------------
@given(operations())
def test_an_op_record_reads_as_it_was_written(record):
    assert wire.parse_operation(wire.encode(record), run_id=record.run_id) == record


@given(FAILURES | GROUPS)
def test_a_sampling_record_reads_as_it_was_written(record):
    assert wire.parse_sample(wire.encode(record), run_id=record.run_id) == record


@given(TURNS)
def test_a_turn_record_reads_as_it_was_written(record):
    assert wire.parse_turn(wire.encode(record), workload=record.workload) == record


def test_fields_without_value_are_left_out_and_zeros_are_kept():
    record = records.op(at=1.5, step=0, queue_seconds=0.0, worker=None, id="w:1", request_id="q")
    assert decode_object(wire.encode(record)) == {
        "run_id": "run-a",
        "operation": "forward_backward",
        "status": "succeeded",
        "at": 1.5,
        "id": "w:1",
        "request_id": "q",
        "queue_seconds": 0.0,
        "step": 0,
    }


# --- Nothing in Redis is trusted ------------------------------------------------------------------------------
PARSERS = [
    lambda raw: wire.parse_operation(raw, run_id="run-a"),
    lambda raw: wire.parse_sample(raw, run_id="run-a"),
    lambda raw: wire.parse_turn(raw, workload="w"),
]


def is_storable(value):
    """Whether every text in a record can be written as UTF-8 and has no NUL."""
    if isinstance(value, str):
        return "\x00" not in value and value.encode() is not None
    if isinstance(value, dict):
        return all(is_storable(item) for pair in value.items() for item in pair)
    return not isinstance(value, list) or all(map(is_storable, value))


@pytest.mark.parametrize("parse", PARSERS, ids=["operation", "sample", "turn"])
@given(raw=st.binary(max_size=100) | st.text(max_size=100))
def test_no_bytes_crash_a_parser(parse, raw):
    record, reason = None, ""
    try:
        record = parse(raw)
    except MalformedRecordError as error:
        reason = error.reason
    assert bool(record) != bool(reason)


@pytest.mark.parametrize("parse", PARSERS, ids=["operation", "sample", "turn"])
@given(fields=ANY_OBJECT, data=st.data())
def test_any_object_is_a_storable_record_or_malformed(parse, fields, data):
    essentials = {"operation": "sample", "status": "failed", "kind": None, "at": 5.0, "started_at": 4.0}
    if data.draw(st.booleans(), label="has the essentials"):
        fields = fields | essentials
    fields.pop("run_id", None)
    fields.pop("workload", None)
    try:
        # As other writers encode: bare NaN, numbers of any length, lone surrogates escaped.
        record = parse(json.dumps(fields))
    except MalformedRecordError:
        return
    assert 0 < record.at <= LAST_INSTANT
    assert is_storable(wire.to_wire(record))
    assert record.identity


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": None}, "bad_status"),
        ({"status": "done"}, "bad_status"),
        ({"status": ["failed"]}, "bad_status"),
        ({"status": {"a": 1}}, "bad_status"),
        ({"operation": ""}, "bad_operation"),
        ({"operation": 7}, "bad_operation"),
        ({"operation": "x" * 513}, "bad_operation"),
        ({"at": None}, "bad_at"),
        ({"at": "5"}, "bad_at"),
        ({"at": -1}, "bad_at"),
        ({"at": 1e12}, "bad_at"),
        ({"run_id": "run-b"}, "other_run"),
        ({"run_id": None}, "other_run"),
    ],
)
def test_an_op_record_without_its_essentials_is_refused(change, reason):
    fields = {"run_id": "run-a", "operation": "forward", "status": "succeeded", "at": 5.0}
    with pytest.raises(MalformedRecordError) as caught:
        wire.parse_operation(encode_object(fields | change), run_id="run-a")
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("name", "value"),
    [("queue_seconds", -1), ("step", -1), ("step", 1.5), ("tokens", "7"), ("worker", 7), ("metrics", [1])],
)
def test_a_field_that_cannot_be_used_is_left_out_and_its_record_kept(name, value):
    fields = {"operation": "forward", "status": "succeeded", "at": 5.0, name: value}
    record = wire.parse_operation(encode_object(fields), run_id="run-a")
    assert not getattr(record, name)


def test_a_nan_among_the_metrics_is_named_and_its_siblings_stay():
    raw = b'{"operation":"optim_step","status":"succeeded","at":5,"metrics":{"loss":NaN,"reward":1.5,"kl":-Infinity}}'
    record = wire.parse_operation(raw, run_id="run-a")
    assert record.metrics == {"reward": 1.5}
    assert record.nonfinite == {"loss": "nan", "kl": "-inf"}


def test_the_stand_in_of_a_nonfinite_metric_is_left_out():
    fields = {"operation": "optim_step", "status": "succeeded", "at": 5.0, "metrics": {"grad_norm": 9999.0}}
    record = wire.parse_operation(encode_object(fields | {"nonfinite": ["grad_norm"]}), run_id="run-a")
    assert record.metrics == {}
    assert record.nonfinite == {"grad_norm": "unknown"}


def test_nonfinite_metrics_are_bounded_however_they_are_written():
    bare = ",".join(f'"a{number}":NaN' for number in range(400))
    named = ",".join(f'"b{number}":"nan"' for number in range(400))
    raw = f'{{"operation":"forward","status":"succeeded","at":5,"metrics":{{{bare}}},"nonfinite":{{{named}}}}}'
    assert len(wire.parse_operation(raw, run_id="run-a").nonfinite) == wire.METRICS_LIMIT


def test_a_turn_keeps_64_ops_and_leaves_out_bad_ones():
    ops = [{"name": "wake_up"}, 7, *({"name": "forward", "start": 1.0, "end": 2.0} for _ in range(100))]
    turn = wire.parse_turn(encode_object({"started_at": 1.0, "at": 9.0, "ops": ops}), workload="w")
    assert len(turn.ops) == wire.TURN_OPS_LIMIT - 2


@pytest.mark.parametrize("count", [0, -1, None, "3", 1.5])
def test_a_group_that_answered_nothing_is_refused(count):
    with pytest.raises(MalformedRecordError) as caught:
        wire.parse_sample(encode_object({"kind": "group", "at": 5.0, "count": count}), run_id="run-a")
    assert caught.value.reason == "bad_count"


@pytest.mark.parametrize("kind", ["summary", None, 7, [], {}])
def test_a_sampling_record_of_no_known_kind_is_refused(kind):
    with pytest.raises(MalformedRecordError) as caught:
        wire.parse_sample(encode_object({"kind": kind, "at": 5.0}), run_id="run-a")
    assert caught.value.reason == "bad_kind"


# --- Records that OpenRL itself writes ------------------------------------------------------------------------
def test_a_record_without_id_is_known_by_request_operation_and_finish_time():
    fields = {"operation": "forward", "status": "succeeded", "at": 5.25, "request_id": "q1", "pod": "p", "node": "n"}
    record = wire.parse_operation(encode_object(fields), run_id="run-a")
    assert record.identity == "q1|forward|5.25"
    assert (record.step, record.worker, record.pod, record.node) == (None, None, "p", "n")


def test_two_records_that_differ_in_operation_alone_are_two():
    identities = {records.foreign_op(name, at=5.0, request_id="q1").identity for name in ("forward", "optim_step")}
    assert len(identities) == 2


def test_a_sample_op_of_a_trainer_reads_as_a_group_of_one():
    fields = {"operation": "sample", "status": "succeeded", "at": 9.0, "enqueued_at": 5.0, "tokens": 7, "id": "w:1"}
    group = wire.parse_sample(encode_object(fields), run_id="run-a")
    assert isinstance(group, wire.SampleGroup)
    assert (group.count, group.seconds_sum, group.tokens_sum, group.identity) == (1, 4.0, 7, "w:1")


def test_a_failed_sample_op_of_a_trainer_reads_as_a_failure():
    fields = {"operation": "sample", "status": "failed", "at": 9.0, "started_at": 5.0, "error_type": "ValueError"}
    failure = wire.parse_sample(encode_object(fields), run_id="run-a")
    assert isinstance(failure, wire.SampleFailure)
    assert (failure.source, failure.accepted_at, failure.error_type) == ("in_process", 5.0, "ValueError")


# --- Run ids --------------------------------------------------------------------------------------------------
FIELDS = ["logical_run_id", "adapter_id", "lora_id", "model_id"]


@pytest.mark.parametrize("first", range(4))
def test_the_first_field_that_names_a_run_wins(first):
    command = {name: f"from-{name}" for name in reversed(FIELDS[first:])}
    assert wire.run_id_of(command) == f"from-{FIELDS[first]}"


def test_a_run_is_found_in_the_payload_too():
    assert wire.run_id_of({"request_id": "q", "payload": {"lora_id": "run-b"}}) == "run-b"


def test_a_field_of_the_payload_goes_before_a_later_field_of_the_command():
    assert wire.run_id_of({"model_id": "Qwen/Qwen3-8B", "payload": {"adapter_id": "run-b"}}) == "run-b"


def test_a_commands_own_field_goes_before_the_payloads():
    assert wire.run_id_of({"lora_id": "own", "payload": {"lora_id": "payload's"}}) == "own"


@pytest.mark.parametrize("empty", [None, "", 7, ["run"], {}])
def test_a_field_that_names_no_run_is_passed_over(empty):
    assert wire.run_id_of({"logical_run_id": empty, "model_id": "run-m"}) == "run-m"


@pytest.mark.parametrize("command", [{}, {"payload": None}, {"payload": "text"}, {"model_id": "x" * 257}])
def test_a_command_that_names_no_run_has_none(command):
    assert wire.run_id_of(command) is None


@pytest.mark.parametrize(
    "reference",
    ["tinker://run-a/sampler_weights/000003", "tinker://run-a/weights", "tinker://run-a", "tinker://run-a/"],
)
def test_a_reference_means_its_run(reference):
    assert wire.run_id_of({"model_id": reference}) == "run-a"


@pytest.mark.parametrize(
    "run_id", ["", "tinker://", "tinker:///weights", "a:samples", ":samples", "x" * 257, "a\x00b", "\ud800"]
)
def test_an_id_that_no_run_may_have_is_refused(run_id):
    assert wire.checked_run_id(run_id) is None


@pytest.mark.parametrize(
    "run_id", ["Qwen/Qwen3-8B", "0f9c:train:0", "a#b%20c", "läuft 🚀", "🚀" * 256, "samples", "a:samples:b", "a/steps"]
)
def test_real_run_ids_are_kept_as_they_are(run_id):
    assert wire.checked_run_id(run_id) == run_id


def test_each_key_of_a_run_is_its_own():
    builders = [
        wire.operations_key,
        wire.samples_key,
        wire.ledger_key,
        wire.steps_key,
        wire.step_times_key,
        wire.queue_key,
    ]
    keys = [builder(run) for builder in builders for run in ("a", "a:b", "b")]
    assert len(set(keys)) == len(keys)


def test_keys_are_those_of_the_contract():
    assert wire.operations_key("r") == "open_rl:operations:r"
    assert wire.samples_key("r") == "open_rl:operations:r:samples"
    assert wire.ledger_key("r") == "open_rl:ledger:r"
    assert wire.steps_key("r") == "open_rl:steps:r"
    assert wire.step_times_key("r") == "open_rl:step_times:r"
    assert wire.worker_key("w") == "open_rl:worker:w"
    assert wire.turns_key("w") == "open_rl:turns:w"
    assert wire.queue_key("r") == "open_rl:queue:r"
