"""What a host hands to an op is the host's: nothing large of it is kept, and nothing tells an op what is another's."""

from __future__ import annotations

import contextvars
import gc
import json
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.workers import RUN, command, end_recorder, make_recorder
from workers_client.recorder import Recorder

NOBODY = "redis://127.0.0.1:1/0"
DONE = {"type": "done", "metrics": {"loss:mean": 1.5}}


class Large:
    """Stands for megabytes of a host's."""


class Tensor:
    """A scalar that holds on to more: a view of a batch, or a loss with its graph."""

    device = "cpu"

    def __init__(self, value: float) -> None:
        self.value = value

    def item(self) -> float:
        """Return the number."""
        return self.value


@pytest.fixture
def idle() -> Iterator[Recorder]:
    """A recorder that folds when a test says so."""
    made = make_recorder(NOBODY, interval_seconds=3_600)
    made._core.flusher.start = lambda: None  # type: ignore[method-assign]
    yield made
    end_recorder(made)


def fold(recorder: Recorder) -> list[dict[str, Any]]:
    """Fold all events; return the op records that wait."""
    core = recorder._core
    with core.fold_lock:
        core.fold_events()
        waiting = list(core.fold.records._queues["operation"])
    return [json.loads(record.encode(record.data)) for record in waiting]


def is_alive(reference: weakref.ref[Any]) -> bool:
    gc.collect()
    return reference() is not None


def record(recorder: Recorder, wanted: dict[str, Any], result: dict[str, Any], **work: Any) -> None:
    with recorder.operation(wanted) as op:
        op.finish(result, **work)
    recorder.answered(wanted, result)


def test_a_payload_and_a_result_are_let_go_where_the_op_ends(idle: Recorder) -> None:
    payload, result = Large(), Large()
    held = [weakref.ref(payload), weakref.ref(result)]
    record(idle, {**command(1), "payload": {"data": payload}}, {**DONE, "loss_fn_outputs": result})
    del payload, result
    assert not any(is_alive(reference) for reference in held)
    assert len(fold(idle)) == 1


def test_a_context_of_the_hosts_is_let_go_where_an_op_beside_another_ends(idle: Recorder) -> None:
    body = Large()
    held = weakref.ref(body)
    request_body: contextvars.ContextVar[Any] = contextvars.ContextVar("request_body")

    def serve(value: Any) -> None:
        request_body.set(value)
        record(idle, command(2), DONE)

    with idle.operation(command(1)):
        contextvars.Context().run(serve, body)
        del body
        assert not is_alive(held)


@pytest.mark.parametrize("where", ["metrics", "trace_context", "tokens", "datums", "batch"])
def test_a_record_that_waits_holds_numbers_and_words_alone(idle: Recorder, where: str) -> None:
    large = Tensor(2.5)
    held = weakref.ref(large)
    wanted = command(1)
    if where == "metrics":
        record(idle, wanted, {"type": "done", "metrics": {"loss:mean": large, "grad_norm:mean": 0.5}})
    elif where == "trace_context":
        wanted["trace_context"] = {"openrl-enqueued-at": "1779264000.5", "baggage": large}
        record(idle, wanted, DONE)
    else:
        record(idle, wanted, DONE, **{where: large})
    wanted.clear()
    [before] = fold(idle)
    large.value = 9.5
    [after] = fold(idle)
    assert before == after
    if where == "metrics":
        assert after["metrics"] == {"loss:mean": 2.5, "grad_norm:mean": 0.5}
    if where == "trace_context":
        assert after["enqueued_at"] == 1779264000.5
    del large
    assert not is_alive(held)


def test_a_metric_that_can_not_be_read_costs_itself_alone(idle: Recorder) -> None:
    class Lost:
        @property
        def device(self) -> str:
            raise RuntimeError("the device is gone")

    record(idle, command(1), {"type": "done", "metrics": {"loss:mean": Lost(), "grad_norm:mean": 0.5}})
    [record_of] = fold(idle)
    assert record_of["metrics"] == {"grad_norm:mean": 0.5}


def nan_op(recorder: Recorder, number: int) -> None:
    with recorder.operation(command(number)) as op:
        op.finish({"type": "done", "metrics": recorder.sanitize_metrics({"loss:mean": float("nan")})})


def nonfinite_of(recorder: Recorder) -> dict[str, Any]:
    return {record["request_id"]: record.get("nonfinite") for record in fold(recorder)}


def test_a_stand_in_is_told_to_the_inner_op_though_the_first_op_has_ended(idle: Recorder) -> None:
    first = idle.operation(command(1)).__enter__()
    with idle.operation(command(2)) as outer:
        first.__exit__(None, None, None)
        nan_op(idle, 3)
        outer.finish(DONE)
    assert nonfinite_of(idle) == {"req-1": None, "req-2": None, "req-3": {"loss:mean": "nan"}}


def test_an_op_that_is_left_in_another_thread_takes_nothing_from_the_op_there(idle: Recorder) -> None:
    first = idle.operation(command(1)).__enter__()
    second = idle.operation(command(2)).__enter__()

    def leave_within_an_op() -> None:
        with idle.operation(command(3)) as op:
            second.__exit__(None, None, None)
            op.finish({"type": "done", "metrics": idle.sanitize_metrics({"loss:mean": float("nan")})})

    thread = threading.Thread(target=leave_within_an_op)
    thread.start()
    thread.join()
    first.__exit__(None, None, None)
    assert nonfinite_of(idle) == {"req-1": None, "req-2": None, "req-3": {"loss:mean": "nan"}}


def test_an_answer_that_another_thread_gives_while_its_op_ends_is_counted(idle: Recorder) -> None:
    wanted = command(1)

    class Interrupted(deque[Any]):
        def append(self, event: Any) -> None:
            if event[0] == "operation":  # as a switch of threads would have it
                idle.answered(wanted, DONE)
            super().append(event)

    idle._core.events = Interrupted()
    with idle.operation(wanted) as op:
        op.finish(DONE)
    assert len(fold(idle)) == 1
    assert idle._core.fold.runs[RUN].counts["answered"] == 1
    assert idle.stats()["hook_errors"] == 0


@pytest.mark.parametrize("is_beside_another", [False, True])
def test_an_op_that_a_fork_finds_running_is_the_parents_to_record(idle: Recorder, is_beside_another: bool) -> None:
    first = idle.operation(command(1)).__enter__()
    op = idle.operation(command(2)).__enter__() if is_beside_another else first
    idle._core.begin_anew_after_fork()  # what a child calls
    op.__exit__(None, None, None)
    assert len(fold(idle)) == 0
    assert idle.stats()["hook_errors"] == 0
