"""The quick way to read an op record gives what the careful way gives, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers_client import quick_parse, wire, wire_parse
from workers_client.codec import encode_object
from workers_client.exceptions import MalformedRecordError

RUN = "run-a"
COMMON = {
    "run_id": RUN, "id": "trainer-a:1", "operation": "forward_backward", "request_id": "r-1", "role": "trainer",
    "worker": "trainer-a", "status": "succeeded", "at": 1_796_000_000.25, "started_at": 1_795_999_999.5, "step": 3,
    "elapsed_seconds": 0.75, "metrics": {"loss:mean": 1.5, "tokens": 7},
}  # fmt: skip
texts = st.one_of(st.text(max_size=4), st.just("x" * 513), st.just("a\x00b"), st.none())
numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70), st.booleans(), texts,
    st.floats(1.0, 2e9).map(lambda at: round(at, 6)), st.just(253_402_300_799.0), st.just(4.0),
)  # fmt: skip
metrics = st.one_of(
    st.dictionaries(st.text(max_size=3), numbers, max_size=4),
    st.just({f"m{number}": 1.0 for number in range(257)}),
    st.just({"n" * 129: 1.0}),
    texts,
)
changes = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("run_id", "id", "operation", "request_id", "role", "worker", "status", "batch"), texts),
        **dict.fromkeys(("error_type", "error_category", "trace_id", "span_id", "pod", "unknown"), texts),
        **dict.fromkeys(("at", "started_at", "enqueued_at", "queue_seconds", "elapsed_seconds"), numbers),
        **dict.fromkeys(("step", "tokens", "datums"), numbers),
        "metrics": metrics,
        "nonfinite": st.one_of(st.just({"kl": "nan"}), st.just({"loss:mean": "inf"}), st.just(["kl"]), texts),
    },
)


@given(changes=changes)
def test_the_quick_way_gives_what_the_careful_way_gives(changes: dict[str, Any]) -> None:
    raw = encode_object(COMMON | changes)
    quick = quick_parse.quick_operation(raw, RUN)
    if quick is not None:
        assert quick == carefully(raw)


def test_what_our_workers_write_is_read_the_quick_way() -> None:
    raw = encode_object(COMMON | {"enqueued_at": 1_795_999_999.25, "queue_seconds": 0.25, "tokens": 5, "batch": "b"})
    assert quick_parse.quick_operation(raw, RUN) == carefully(raw)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"text"', b"[" * 100_000, b'{"run_id":"run-b"}', b"\xff"])
def test_what_is_no_common_record_is_left_to_the_careful_way(raw: bytes) -> None:
    assert quick_parse.quick_operation(raw, RUN) is None


@given(of_each=st.lists(changes, max_size=4))
def test_many_at_once_are_what_each_is_alone(of_each: list[dict[str, Any]]) -> None:
    elements = [encode_object(COMMON | of_one) for of_one in of_each]
    together = quick_parse.quick_operations(elements, RUN)
    if together is not None:
        assert together == [carefully(element) for element in elements]


def test_what_our_workers_write_is_read_at_once() -> None:
    elements = [encode_object(COMMON | {"id": f"trainer-a:{number}", "step": number}) for number in range(3)]
    assert quick_parse.quick_operations(elements, RUN) == [carefully(element) for element in elements]


def test_a_record_with_a_line_end_within_is_read_as_it_is() -> None:
    elements = [FIRST[:-1] + b"\n}", SECOND]
    assert quick_parse.quick_operations(elements, RUN) == [carefully(element) for element in elements]


FIRST, SECOND = (encode_object(COMMON | {"id": f"trainer-a:{number}"}) for number in (1, 2))
UNCOMMON = {
    "one that is none": [FIRST, b"{"],
    "one of another run": [FIRST, encode_object(COMMON | {"run_id": "run-b"})],
    "one with an instant that is rounded": [FIRST, encode_object(COMMON | {"at": 1_796_000_000.123_456_7})],
    "two in one element, and an element without any": [FIRST + b"\n" + SECOND, b""],
    "two in one element, and one in two others": [FIRST + b"\n" + SECOND, FIRST[:-1] + b',"metrics":', b'{"kl":1}}'],
    "one in two elements, and two in another": [FIRST[:-2] + b"}", b"}", FIRST + SECOND],
    "one that begins in one element and ends in the next": [FIRST[:-1] + b",", b'"step":1}'],
}


@pytest.mark.parametrize("elements", UNCOMMON.values(), ids=UNCOMMON)
def test_of_many_none_is_read_at_once_where_one_is_not_common(elements: list[bytes]) -> None:
    assert quick_parse.quick_operations(elements, RUN) is None


def carefully(raw: bytes) -> wire.OpRecord | None:
    """Read a record field by field."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire_parse, "quick_operation", lambda raw, run_id: None)
        try:
            return wire.parse_operation(raw, run_id=RUN)
        except MalformedRecordError:
            return None
