"""The op that every contender records: one command, its result with 8 metrics."""

from __future__ import annotations

from typing import Any

METRICS = {
    "loss:mean": 1.25, "grad_norm:mean": 0.5, "learning_rate:mean": 1e-4, "reward:mean": 0.125, "kl:mean": 0.01,
    "entropy:mean": 2.5, "clip_fraction:mean": 0.1, "advantage:mean": -0.25,
}  # fmt: skip
COUNT = 1024
COMMANDS: list[dict[str, Any]] = [
    {
        "request_id": f"5f0c7c1e-2f5a-4d5e-9a51-{number:012d}",
        "op": "forward_backward",
        "model_id": f"7d3c2a51-0e7d-4a52-9e5f-{number % 3:012d}",
        "payload": {"data": []},
        "trace_context": {"openrl-enqueued-at": "1796000000.125"},
    }
    for number in range(COUNT)
]
RESULTS: list[dict[str, Any]] = [
    {"type": "forward_backward_completed", "metrics": {name: value * (1 + number) for name, value in METRICS.items()}}
    for number in range(COUNT)
]
