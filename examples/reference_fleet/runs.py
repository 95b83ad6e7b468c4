"""The runs that the fleet can train: names used on the command line, ids used everywhere else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run: `group` names the trainer process that serves it, `task` the loop its client drives."""

    name: str
    run_id: str
    group: str
    task: str
    layers: tuple[int, ...]  # sizes of the network, input first
    learning_rate: float


_CATALOGUE = (
    RunPlan("cartpole-policy", "5b0e7c52-6d1f-4a53-9a40-3c1d0f6f2b7e", "control", "cartpole", (4, 24, 2), 0.01),
    RunPlan("digits-classifier", "open-rl/digits-mlp:train:0", "classify", "digits", (64, 32, 10), 0.01),
    RunPlan(
        "spirals-classifier",
        "sess-8d2f41c6-77ab-4f0e-b1f5-0a9e53c4d6e1:train:1",
        "classify",
        "spirals",
        (2, 32, 32, 3),
        0.01,
    ),
)
RUNS = {plan.name: plan for plan in _CATALOGUE}


def plans_of(names: tuple[str, ...], *, group: str | None = None) -> list[RunPlan]:
    """Return the plans of these names in their order, of one group where it is given."""
    return [RUNS[name] for name in names if group is None or RUNS[name].group == group]


def groups_of(names: tuple[str, ...]) -> list[str]:
    """Return the run groups of these names, each once, in their order."""
    return list(dict.fromkeys(RUNS[name].group for name in names))
