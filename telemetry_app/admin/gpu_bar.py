"""The parts of one bar that says what the GPUs did: of each run, switching, idle while somebody waited, idle. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SHOWN_RUNS = 6  # as many colours as people tell apart; the others are one part


@dataclass(frozen=True, slots=True)
class GpuPart:
    """One part: what stands in the legend, and its share of all devices' time (0 to 1).

    `mark` stands in the bar and in the legend, so that no colour stands alone; `run_id` is empty but for a run's part.
    """

    kind: str
    mark: str
    label: str
    seconds: float
    share: float
    run_id: str = ""


def gpu_bar(gpu: Mapping[str, Any]) -> list[GpuPart]:
    """Return the parts of the fleet's `gpu`; their shares add up to 1, and there are none without a device."""
    if not gpu["total_seconds"]:
        return []
    shown, others = gpu["by_run"][:SHOWN_RUNS], gpu["by_run"][SHOWN_RUNS:]
    parts = [
        GpuPart(
            f"run-{number}", str(number), entry["run_id"] or "ops of no run", entry["seconds"], entry["share"],
            entry["run_id"] or "",
        )
        for number, entry in enumerate(shown, start=1)
    ]  # fmt: skip
    rest = [*others, gpu["other_runs"]]
    seconds, share = sum(entry["seconds"] for entry in rest), sum(entry["share"] or 0.0 for entry in rest)
    if seconds:
        parts.append(GpuPart("run-7", "…", "other runs", seconds, share))
    for kind, mark, label in (
        ("switching", "⇄", "switching between runs"),
        ("idle_while_waited", "▲", "idle while a run waited"),
        ("idle", "○", "idle"),
    ):
        parts.append(GpuPart(kind, mark, label, gpu[kind]["seconds"], gpu[kind]["share"] or 0.0))
    return parts
