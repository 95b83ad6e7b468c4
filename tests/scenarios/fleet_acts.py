"""What clients, API servers, trainers and samplers do: each act is a generator on the world's clock."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from tests.support.world import Acting, Process, World

RUN, NEIGHBOUR = "run-a", "run-b"
_numbers = itertools.count(1)

Metrics = dict[str, float]


def command(operation: str, run: str = RUN) -> dict[str, Any]:
    """Return a command as a client's request becomes one."""
    number = next(_numbers)
    return {"request_id": f"q-{number}", "op": operation, "model_id": run, "payload": {}, "trace_context": None}


class Site:
    """The processes that serve a run: an API server and a trainer, whom clients use."""

    def __init__(
        self, world: World, *, trainer: str = "trainer-0", server: Process | None = None, **environment: str
    ) -> None:
        self.world = world
        self.server = server or world.start("api_server", "api-0")
        self.trainer = world.start("trainer", trainer, **environment)
        self.queue: list[dict[str, Any]] = []

    def restart_trainer(self, name: str = "trainer-0") -> None:
        """Start another process in place of the trainer."""
        self.trainer = self.world.start("trainer", name)

    # --- One op -----------------------------------------------------------------------------------------------
    def op(
        self, operation: str = "forward_backward", *, run: str = RUN, seconds: float = 1.0,
        metrics: Metrics | None = None, error: str | None = None, deliver: bool = True, tokens: int | None = None,
        sent: dict[str, Any] | None = None, nonfinite: dict[str, float] | None = None,
    ) -> Acting:  # fmt: skip
        """A request from its enqueue to its delivery; the op takes so long."""
        wanted = sent or command(operation, run)
        if sent is None:
            self.server.recorder.enqueued(wanted)
            yield 0.1
        is_answered = yield from self.run(
            wanted, seconds=seconds, metrics=metrics, error=error, tokens=tokens, nonfinite=nonfinite
        )
        if deliver and is_answered:
            yield 0.1
            self.server.recorder.delivered(wanted["request_id"], run)

    def run(
        self, wanted: dict[str, Any], *, seconds: float, metrics: Metrics | None = None, error: str | None = None,
        tokens: int | None = None, popped: bool = False, nonfinite: dict[str, float] | None = None,
    ) -> Acting:  # fmt: skip
        """The trainer's part of it."""
        trainer = self.trainer
        if not popped:
            trainer.recorder.popped([wanted])
        with trainer.recorder.operation(wanted) as running:
            yield from working(trainer, seconds)
            if not trainer.is_alive:
                return False
            result: dict[str, Any] = {
                "type": "done",
                "metrics": dict(metrics or {"loss:sum": 1.5, "grad_norm:mean": 0.4}),
            }
            if nonfinite:
                result["metrics"] = trainer.recorder.sanitize_metrics({**result["metrics"], **nonfinite})
            if error:
                result = {"type": "RequestFailedResponse", "error_type": error, "category": "server"}
            running.finish(result, tokens=tokens)
        trainer.recorder.answered(wanted, result)
        return True

    def in_turn(self, wanted: dict[str, Any], *, seconds: float, workload: str) -> Acting:
        """The trainer's part of it, in a turn on the GPU that all share."""
        trainer, world = self.trainer, self.world
        trainer.recorder.popped([wanted])
        turn = trainer.recorder.gpu_turn(workload, nullcontext())
        turn._request()
        while world.gpu_holder is not None:
            yield 0.5
        asked_at = turn.requested_at
        world.gpu_holder = trainer
        turn.__enter__()
        turn.requested_at = asked_at
        is_answered = yield from self.run(wanted, seconds=seconds, popped=True)
        if is_answered:
            turn.__exit__(None, None, None)
            world.gpu_holder = None
        return is_answered

    # --- A client ---------------------------------------------------------------------------------------------
    def client(
        self, *, run: str = RUN, steps: int = 10**6, seconds: float = 1.0, pause: float = 1.0,
        metrics: Callable[[int], Metrics] = lambda step: {"loss:sum": 2.0 / (step + 1), "grad_norm:mean": 0.4},
    ) -> Acting:  # fmt: skip
        """A client that trains: two forward_backwards and an optim_step, and a pause."""
        for step in range(steps):
            found = metrics(step)
            for _ in range(2):
                yield from self.op(run=run, seconds=seconds, metrics=found, tokens=512)
            yield from self.op("optim_step", run=run, seconds=seconds / 4, metrics=found)
            yield pause

    def in_turns(self, *, run: str, seconds: float, workload: str, pause: float = 1.0) -> Acting:
        """A client whose ops run in turns on the shared GPU."""
        while True:
            wanted = command("forward_backward", run)
            self.server.recorder.enqueued(wanted)
            yield 0.1
            if not (yield from self.in_turn(wanted, seconds=seconds, workload=workload)):
                return
            yield 0.1
            self.server.recorder.delivered(wanted["request_id"], run)
            yield pause


def working(process: Process, seconds: float) -> Iterator[float]:
    """Work so long, as long as the process lives; a stopped one goes on when it is resumed."""
    left = seconds
    while left > 0 and process.is_alive:
        yield min(0.5, left)
        left -= 0.0 if process.is_stopped else min(0.5, left)
    while process.is_stopped and process.is_alive:
        yield 0.5


def sampling(sampler: Process, *, run: str = RUN, seconds: float, count: int = 4, rounds: int = 10**6) -> Acting:
    """Sampling requests that are open side by side, and answered together."""
    for _ in range(rounds):
        asked = [command("sample", run) for _ in range(count)]
        for request in asked:
            sampler.recorder.sample_accepted(request)
        yield from working(sampler, seconds)
        for request in asked:
            sampler.recorder.sample_answered(request, {"type": "sample", "tokens": [1, 2]}, source="dispatcher")
        yield 1.0
