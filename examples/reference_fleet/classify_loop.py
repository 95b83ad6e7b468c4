"""The loop of a classifier run: micro-batches of fresh examples, one optimizer step, now and then an evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from examples.reference_fleet.api_client import ApiClient, succeeded
from examples.reference_fleet.datasets import DATASETS, as_data
from examples.reference_fleet.envelope import has_failed
from examples.reference_fleet.runs import RunPlan

_MICRO_BATCHES = 4
_MICRO_BATCH_EXAMPLES = 24
_EVALUATION_EXAMPLES = 128
_EVALUATION_EVERY_STEPS = 5


class ClassifyLoop:
    """Trains on generated examples; the same seed, epoch and step bring the same ones."""

    def __init__(self, plan: RunPlan, api: ApiClient, seed: int) -> None:
        self._api, self._seed = api, seed
        self._draw = DATASETS[plan.task]
        self._adam = {"learning_rate": plan.learning_rate, "grad_clip_norm": 1.0}

    def ops_of(self, step: int) -> int:
        """Return how many ops a step sends, for the pace."""
        return _MICRO_BATCHES + 1 + (step % _EVALUATION_EVERY_STEPS == 0)

    def run_step(self, step: int, epoch: int) -> str:
        """Train one step, and evaluate at every fifth. Returns a line for the log; raises what the client raises."""
        rng = np.random.default_rng([self._seed, step])
        sent = [
            self._api.submit("forward_backward", self._batch(rng, _MICRO_BATCH_EXAMPLES, epoch))
            for _ in range(_MICRO_BATCHES)
        ]
        optim_step = self._api.submit("optim_step", {"adam_params": self._adam})  # queued before the first answer
        *micro_batches, stepped = self._api.results([*sent, optim_step])
        norm = succeeded(stepped)["metrics"]["grad_norm:mean"]
        losses = [result["metrics"]["loss:mean"] for result in micro_batches if not has_failed(result)]
        text = f"loss {sum(losses) / max(1, len(losses)):.3f}, gradient norm {norm:.3f}"
        if len(losses) < _MICRO_BATCHES:  # the step was made from the others
            text += f", {_MICRO_BATCHES - len(losses)} forward_backward failed"
        return text + self._evaluate(epoch) if step % _EVALUATION_EVERY_STEPS == 0 else text

    def _evaluate(self, epoch: int) -> str:
        rng = np.random.default_rng([self._seed, 0, epoch])
        metrics = self._api.call("forward", self._batch(rng, _EVALUATION_EXAMPLES, epoch))["metrics"]
        return f", accuracy {metrics['accuracy:mean']:.0%}"

    def _batch(self, rng: np.random.Generator, count: int, epoch: int) -> dict[str, Any]:
        return {"data": as_data(self._draw(rng, count, epoch)), "loss_fn": "cross_entropy"}
