"""Trouble on demand: counts what happens to each run, so that the same flags bring the same trouble every time."""

from __future__ import annotations

import redis

from examples.reference_fleet.options import NthTrouble, Options, OpTrouble, StepTrouble
from examples.reference_fleet.runs import RUNS

_TTL_SECONDS = 24 * 3600
# Flags whose trouble needs what happens to be counted.
_COUNTED = (
    "fail_op", "hang_op", "nan_gradient", "kill_trainer", "fail_job", "lose_sample", "fail_send", "send_twice",
    "fail_weight_update", "spoil_revision", "kill_sampler", "kill_dispatcher",
)  # fmt: skip


def is_due(planned: NthTrouble | None, run_id: str, count: int) -> bool:
    """Say whether a planned trouble strikes the `count`th of its kind in this run."""
    return planned is not None and planned == NthTrouble(_name_of(run_id), count)


class Trouble:
    """Says when it strikes. The counts stand in Redis, so a restarted process counts on and nothing strikes twice."""

    def __init__(self, options: Options, connection: redis.Redis) -> None:
        self._options = options
        self._redis = connection
        self._key = f"reference_fleet:counts:{options.fleet_id}"
        self._planned = any(getattr(options, flag) for flag in _COUNTED)

    def count(self, run_id: str, operation: str) -> int:
        """Count an op, or something else of a run: 1 for the first of its name since the fleet started.

        Costs nothing, and returns 0, where no trouble is planned.
        """
        if not self._planned:
            return 0
        with self._redis.pipeline() as pipeline:
            pipeline.hincrby(self._key, f"{run_id} {operation}", 1)
            pipeline.expire(self._key, _TTL_SECONDS)
            return int(pipeline.execute()[0])

    def fails(self, run_id: str, operation: str, count: int) -> bool:
        """Say whether this op shall fail."""
        return self._options.fail_op == OpTrouble(_name_of(run_id), operation, count)

    def hangs(self, run_id: str, operation: str, count: int) -> bool:
        """Say whether this op shall never end."""
        return self._options.hang_op == OpTrouble(_name_of(run_id), operation, count)

    def spoils_gradient(self, run_id: str, count: int) -> bool:
        """Say whether the gradient of this `optim_step` shall be NaN."""
        return self._options.nan_gradient == StepTrouble(_name_of(run_id), count)

    def kills_trainer(self, run_id: str, count: int) -> bool:
        """Say whether the trainer shall die before this `optim_step`."""
        return self._options.kill_trainer == StepTrouble(_name_of(run_id), count)


def _name_of(run_id: str) -> str:
    return next((plan.name for plan in RUNS.values() if plan.run_id == run_id), run_id)
