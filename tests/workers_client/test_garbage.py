"""Every hook, fed with anything at all, never raises and returns what it promises."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.workers import make_recorder
from workers_client.recorder import Recorder

NAMES = st.sampled_from(
    ["request_id", "op", "model_id", "payload", "trace_context", "type", "metrics", "sequences", "tokens",
     "accepted_at", "logical_run_id", "adapter_id", "error_type", "category"]
)  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=8), st.builds(object)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(NAMES, st.text(max_size=8)), inner, max_size=5)
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    made = make_recorder("redis://127.0.0.1:1/0", interval_seconds=3600)
    made._core.flusher.start = lambda: None  # type: ignore[method-assign] # hooks and the fold alone are looked at
    return made


@given(first=ANYTHING, second=ANYTHING)
@settings(max_examples=150, deadline=None)
def test_no_hook_raises(recorder: Recorder, first: Any, second: Any) -> None:
    for hook in (recorder.enqueued, recorder.popped, recorder.delivered, recorder.sample_accepted, recorder.phase):
        assert hook(first) is None
    assert recorder.answered(first, second) is None
    assert recorder.sample_answered(first, second, source="dispatcher") is None
    assert recorder.sample_answered(first, second, source=second) is None
    with recorder.operation(first) as op:
        assert op.finish(second, tokens=first, datums=second, batch=first) is None
        recorder.sanitize_metrics(second)
    with recorder.span(first):
        pass
    produced = recorder.stats()["produced"]
    assert all(count >= 0 for count in produced.values())


@pytest.mark.parametrize("nonsense", [None, "a string", 7, {}, {"request_id": ["a", "list"]}, {"model_id": "run-a"}])
def test_nonsense_counts_as_one_hook_error(recorder: Recorder, nonsense: Any) -> None:
    before = recorder.stats()["hook_errors"]
    recorder.answered(nonsense, None)
    assert recorder.stats()["hook_errors"] == before + 1


def test_an_error_of_the_host_passes_through_an_op_and_a_span(recorder: Recorder) -> None:
    with pytest.raises(ZeroDivisionError), recorder.operation(None), recorder.span("x"):
        _ = 1 / 0


def test_whatever_is_recorded_of_nonsense_can_be_sent(recorder: Recorder) -> None:
    recorder.stats()
    core = recorder._core
    taken = core.fold.records.take(max_records=10**6, max_bytes=10**9, is_ready=lambda record: True)
    core.fold.records.settle()
    assert all(record.encode(record.data).startswith(b"{") for record in taken)
