"""A process that does not record has the same calls: a host needs no `if`, and one type for both."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import typing
from collections.abc import Callable
from typing import Any

import pytest

import workers_client
from tests.support.workers import end_recorder, make_recorder
from workers_client.null_recorder import NullOperation, NullTurn
from workers_client.operation import Operation

PUBLIC = [name for name in dir(workers_client.Recorder) if not name.startswith("_")]


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Return what a caller may pass: names, kinds and defaults."""
    found = inspect.signature(function).parameters.values()
    return [(parameter.name, parameter.kind, parameter.default) for parameter in found]


def test_both_have_the_same_public_names() -> None:
    assert [name for name in dir(workers_client.NullRecorder) if not name.startswith("_")] == PUBLIC


@pytest.mark.parametrize("name", [name for name in PUBLIC if callable(getattr(workers_client.Recorder, name))])
def test_both_take_the_same_arguments(name: str) -> None:
    ours, real = getattr(workers_client.NullRecorder, name), getattr(workers_client.Recorder, name)
    assert parameters(ours) == parameters(real)
    assert ours.__doc__


def test_an_op_takes_the_same_arguments() -> None:
    assert parameters(NullOperation.finish) == parameters(Operation.finish)


def test_the_counters_have_the_same_names_and_kinds() -> None:
    recorder = make_recorder("redis://127.0.0.1:1/0")
    real, null = recorder.stats(), workers_client.NullRecorder().stats()
    end_recorder(recorder)
    assert null == real


def test_one_type_stands_for_both() -> None:
    assert set(typing.get_args(workers_client.AnyRecorder)) == {workers_client.Recorder, workers_client.NullRecorder}
    for function in (workers_client.start, workers_client.get_recorder):
        hints = typing.get_type_hints(function)
        assert hints["return"] == workers_client.AnyRecorder


def test_a_lease_is_entered_and_left_be_it_plain_or_async() -> None:
    told = []

    @contextlib.contextmanager
    def plain():
        told.append("taken")
        yield "device"
        told.append("given back")

    @contextlib.asynccontextmanager
    async def asynchronous():
        with plain() as device:
            yield device

    async def hold(lease: Any) -> str:
        async with NullTurn(lease) as device:
            return device

    with NullTurn(plain()) as device:
        assert device == "device"
    assert [asyncio.run(hold(plain())), asyncio.run(hold(asynchronous()))] == ["device", "device"]
    assert told == ["taken", "given back"] * 3


def test_an_error_of_the_host_passes_and_metrics_become_finite() -> None:
    recorder = workers_client.NullRecorder()
    with pytest.raises(ZeroDivisionError), recorder.operation({}), recorder.span("x"):
        _ = 1 / 0
    assert recorder.sanitize_metrics({"loss:sum": float("nan"), "kl": 2.0}) == {"loss:sum": 0.0, "kl": 2.0}
    assert recorder.sanitize_metrics(7) == 7
