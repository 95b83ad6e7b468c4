"""The op that every contender records: one command, its result with 8 metrics."""

from __future__ import annotations

from typing import Any

METRICS = {
    "loss:mean": 1.25, "grad_norm:mean": 0.5, "learning_rate:mean": 1e-4, "reward:mean": 0.125, "kl:mean": 0.01,
    "entropy:mean": 2.5, "clip_fraction:mean": 0.1, "advantage:mean": -0.25,
}  # fmt: skip
COUNT = 1024


def make_command(number: int) -> dict[str, Any]:
    """Return a command as a trainer takes it from the queue."""
    return {
        "request_id": f"5f0c7c1e-2f5a-4d5e-9a51-{number:012d}",
        "op": "forward_backward",
        "model_id": f"7d3c2a51-0e7d-4a52-9e5f-{number % 3:012d}",
        "payload": {"data": []},
        "trace_context": {"openrl-enqueued-at": "1796000000.125"},
    }


def make_result(number: int) -> dict[str, Any]:
    """Return the result of an op, its metrics new numbers."""
    return {
        "type": "forward_backward_completed",
        "metrics": {name: value * (1 + number) for name, value in METRICS.items()},
    }


COMMANDS = [make_command(number) for number in range(COUNT)]
RESULTS = [make_result(number) for number in range(COUNT)]
