"""Whatever stands in Redis, over every endpoint and through a snapshot: no fault, strict JSON, malformed is counted."""

from __future__ import annotations

import dataclasses
import json
import time
from itertools import product
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from telemetry_app.api import events
from telemetry_app.snapshots import take_snapshot
from tests.support.endpoints import BASE, ROUTES, checked, path_of
from tests.support.records import RUN, op, sample_failure, sample_group, turn, worker, worker_fields
from workers_client import wire

pytestmark = pytest.mark.django_db
WORKER = "w-1"
WORKLOAD = "workload-1"
RUN_IDS = [RUN, "run/\u202e<script>", "run \x1b[31m", "🚀" * 256, "x" * 257, "\x00", "a:samples", ""]
DEEP = "[" * 5_000 + "]" * 5_000
DEEP_OBJECT = '{"a":' * 2_000 + "1" + "}" * 2_000
# Written into JSON as they are: what an encoder would never write is just what is meant.
RAW_VALUES = [
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 400, "-" + "9" * 400, "0." + "1" * 400, "1e-400", "-0",
    "null", "true", "[]", "{}", '""', DEEP, DEEP_OBJECT, '"\\ud800"', '"\\u0000"', '"\\u202e<script>"', '"nan"',
    '"' + "x" * 100_000 + '"', '"\\u001b[31m\\r\\n"', "[null, 1, {}]", '{"": null}', "253402300800", "-62135596801",
    "1e300", "9007199254740993", "18446744073709551616", "1.5", '"1"', '{"a":{"b":{"c":{"d":1}}}}',
]  # fmt: skip
ELEMENTS = [
    b"", b"\x00", b"\xff\xfe", b"{", b"null", b"[]", b"{}", b'"x"', b"1e999", DEEP.encode(), b'{"id": 1, "id": 2}',
    b'\xef\xbb\xbf{"id": "bom"}', b'{"at": NaN}', b'{"kind": "group"}', b'{"operation": "optim_step"}', b"{}{}",
    b" " * 9_999,
]  # fmt: skip
NUMBERS = [b"nan", b"inf", b"-1", b"1e400", b"9" * 400, b"", b"\xff", b"1.5", b" 1 ", b"0x1", b"9223372036854775807"]


def fields_of(record: Any) -> dict[str, Any]:
    """Return a record as a JSON object, what has no value included."""
    return worker_fields(record) if hasattr(record, "role") else json.loads(wire.encode(record))


def names_of(record: Any) -> list[str]:
    """Return the names of all fields that a record can have."""
    return [field.name for field in dataclasses.fields(record)]


@st.composite
def damaged(draw: st.DrawFn, record: Any) -> bytes:
    """Return a record in which some fields are what nobody writes, as raw JSON."""
    parts = {name: json.dumps(value) for name, value in fields_of(record).items()}
    odd = st.sampled_from(RAW_VALUES) | st.text(max_size=20).map(json.dumps) | st.floats().map(json.dumps)
    parts |= draw(st.dictionaries(st.sampled_from(names_of(record)), odd, min_size=1, max_size=4))
    parts |= draw(st.dictionaries(st.sampled_from(["metrics", "nonfinite", "settings"]), mappings(odd), max_size=1))
    return b"{" + b",".join(f"{json.dumps(name)}:{raw}".encode() for name, raw in parts.items()) + b"}"


def mappings(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return raw JSON objects of odd names and values, such as metrics."""
    names = st.sampled_from(["loss:mean", "", "a:sum", "x" * 200, "\x00", "<b>", "grad_norm"]) | st.text(max_size=9)
    return st.dictionaries(names, values, max_size=4).map(
        lambda content: "{" + ",".join(f"{json.dumps(name)}:{raw}" for name, raw in content.items()) + "}"
    )


def elements(*records: Any) -> st.SearchStrategy[list[bytes]]:
    """Return the elements of a list: good records, damaged ones and none at all."""
    good = st.sampled_from([json.dumps(fields_of(record)).encode() for record in records])
    bad = st.one_of([damaged(record) for record in records])
    return st.lists(st.one_of(good, bad, bad, st.sampled_from(ELEMENTS), st.binary(max_size=40)), max_size=8)


NOW = round(time.time(), 3)  # for records that are of today; nothing is measured against it
OPERATIONS = elements(
    op(at=NOW, step=0, metrics={"loss:mean": 1.0}, enqueued_at=NOW - 3),
    op("optim_step", at=NOW, step=0, metrics={"grad_norm": 1.0}),
    op(at=NOW, step=1, status="failed", error_type="ValueError"),
)
SAMPLES = elements(sample_failure(at=NOW), sample_group(at=NOW, count=3))
TURNS = elements(turn(at=NOW, workload=WORKLOAD))
HASH = st.dictionaries(
    st.sampled_from([name.encode() for name in (*wire.LEDGER_COUNTS, *wire.LEDGER_INSTANTS)]) | st.binary(max_size=9),
    st.sampled_from(NUMBERS) | st.integers(0, 50).map(lambda count: str(count).encode()),
    min_size=1,
    max_size=8,
)
SCORES = st.floats(allow_nan=False) | st.just(NOW)
MEMBERS = st.sampled_from([*RUN_IDS, WORKER, WORKLOAD, "\ufffd"]) | st.text(max_size=9)
INDEX = st.dictionaries(
    MEMBERS.map(lambda name: name.encode("utf-8", "replace")) | st.binary(max_size=9), SCORES, min_size=1, max_size=6
)
WORKER_FIELDS = {"settings": {"A": "b"}, "phase": "idle", "turns": {"holding": True}, "versions": {"v": "1"}}
WORKER_RECORD = damaged(worker(WORKER, at=NOW, **WORKER_FIELDS)) | st.sampled_from(ELEMENTS)
# One of each type of Redis.
OF_TYPES = [
    ("string", b"x"), ("hash", {b"a": b"b"}), ("zset", {b"a": 1.0}), ("list", [b"x"]), ("set", [b"x"]),
    ("stream", {b"a": b"b"}),
]  # fmt: skip


@st.composite
def redis_contents(draw: st.DrawFn) -> dict[str, tuple[str, Any]]:
    """Return keys with their Redis type and content: those of the contract, some of another type than theirs."""
    contents: dict[str, tuple[str, Any]] = {
        wire.operations_key(RUN): ("list", draw(OPERATIONS)),
        wire.samples_key(RUN): ("list", draw(SAMPLES)),
        wire.turns_key(WORKLOAD): ("list", draw(TURNS)),
        wire.step_times_key(RUN): ("list", draw(st.lists(st.sampled_from(NUMBERS), max_size=4))),
        wire.queue_key(RUN): ("list", draw(st.lists(st.binary(max_size=5), max_size=3))),
        wire.ledger_key(RUN): ("hash", draw(HASH)),
        wire.steps_key(RUN): ("string", draw(st.sampled_from(NUMBERS))),
        wire.worker_key(WORKER): ("string", draw(WORKER_RECORD)),
        wire.RUNS_KEY: ("zset", draw(INDEX) | {RUN.encode(): NOW}),
        wire.WORKERS_KEY: ("zset", draw(INDEX) | {WORKER.encode(): NOW}),
        wire.WORKLOADS_KEY: ("zset", draw(INDEX) | {WORKLOAD.encode(): NOW}),
    }
    other = draw(st.sampled_from(RUN_IDS[1:4]))
    contents[wire.operations_key(other)] = ("list", draw(OPERATIONS))
    for key in draw(st.lists(st.sampled_from(sorted(contents)), max_size=2, unique=True)):
        contents[key] = draw(st.sampled_from(OF_TYPES))
    return contents


def put(client: Any, contents: dict[str, tuple[str, Any]]) -> None:
    """Have Redis hold these keys and no others."""
    client.flushdb()
    write = {
        "list": lambda key, content: client.rpush(key, *content),
        "hash": lambda key, content: client.hset(key, mapping=content),
        "string": client.set,
        "zset": client.zadd,
        "set": lambda key, content: client.sadd(key, *content),
        "stream": client.xadd,
    }
    for key, (kind, content) in contents.items():
        if content or kind == "string":
            write[kind](key, content)


@pytest.fixture
def caller(writer, client, token, monkeypatch):
    """A signed-in client, and the Redis that it reads."""
    monkeypatch.setattr(events, "close_old_connections", lambda: None)  # the one of this test's transaction stays
    client.defaults["HTTP_AUTHORIZATION"] = f"Token {token}"
    client.redis = writer.client
    return client


def ask_everything(caller: Any, *runs: str) -> None:
    """Ask every endpoint, and see that each gives a sane answer."""
    for route in ROUTES:
        for run in runs if "run>" in route else runs[:1]:
            response = caller.get(path_of(route, run=run, worker=WORKER, device="unnamed"))
            assert response.status_code in (200, 404), (route, response.content)
            checked(response)


@given(contents=redis_contents(), is_stored=st.booleans())
@settings(
    max_examples=20,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking takes minutes: each example asks everything
    suppress_health_check=list(HealthCheck),
)
def test_no_content_of_redis_makes_a_fault(caller, contents, is_stored):
    put(caller.redis, contents)
    with transaction.atomic():
        if is_stored:
            assert take_snapshot().counts()["failed_runs"] == 0
        ask_everything(caller, RUN, RUN_IDS[1])
        if is_stored:
            caller.redis.flushdb()
            ask_everything(caller, RUN)
        transaction.set_rollback(True)


@pytest.mark.parametrize(("kind", "content"), OF_TYPES)
def test_keys_of_another_redis_type_make_no_fault(caller, kind, content):
    keys = [
        wire.operations_key(RUN), wire.samples_key(RUN), wire.turns_key(WORKLOAD), wire.step_times_key(RUN),
        wire.queue_key(RUN), wire.ledger_key(RUN), wire.steps_key(RUN), wire.worker_key(WORKER), wire.RUNS_KEY,
        wire.WORKERS_KEY, wire.WORKLOADS_KEY,
    ]  # fmt: skip
    put(caller.redis, dict.fromkeys(keys, (kind, content)))
    ask_everything(caller, RUN)
    take_snapshot()
    ask_everything(caller, RUN)


def test_what_is_no_record_is_counted_and_hides_none(caller):
    good = json.dumps(fields_of(op(at=NOW, step=0))).encode()
    bad = [element for element in ELEMENTS if b"optim_step" not in element]
    put(caller.redis, {wire.operations_key(RUN): ("list", [good, *bad]), wire.RUNS_KEY: ("zset", {RUN: NOW})})
    answer = checked(caller.get(f"{BASE}/runs/{RUN}/operations"))
    assert (answer["count"], answer["coverage"]["malformed"]) == (1, len(bad))


@pytest.mark.parametrize("part", range(4))
def test_every_field_of_every_record_may_be_anything(caller, part):
    values = RAW_VALUES[part::4]
    contents: dict[str, tuple[str, Any]] = {
        wire.RUNS_KEY: ("zset", {RUN: NOW}), wire.WORKERS_KEY: ("zset", {WORKER: NOW}),
        wire.WORKLOADS_KEY: ("zset", {WORKLOAD: NOW}),
    }  # fmt: skip
    for key, records in (
        (wire.operations_key(RUN), [op("optim_step", at=NOW, step=0), op(at=NOW, step=1, status="failed")]),
        (wire.samples_key(RUN), [sample_failure(at=NOW), sample_group(at=NOW)]),
        (wire.turns_key(WORKLOAD), [turn(at=NOW, workload=WORKLOAD)]),
    ):
        contents[key] = (
            "list",
            [with_raw(record, *odd) for record in records for odd in product(names_of(record), values)],
        )
    for number, (name, raw) in enumerate(product(names_of(worker(WORKER, at=NOW)), values)):
        contents[wire.worker_key(f"w-{number}")] = ("string", with_raw(worker(f"w-{number}", at=NOW), name, raw))
        contents[wire.WORKERS_KEY][1][f"w-{number}"] = NOW
    put(caller.redis, contents)
    ask_everything(caller, RUN)
    assert take_snapshot().counts()["failed_runs"] == 0
    caller.redis.flushdb()
    ask_everything(caller, RUN)


def with_raw(record: Any, name: str, raw: str) -> bytes:
    """Return a record as raw JSON with one field replaced."""
    parts = {key: json.dumps(value) for key, value in fields_of(record).items()} | {name: raw}
    return ("{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in parts.items()) + "}").encode()
