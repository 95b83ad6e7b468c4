"""The loop of a control run: save the policy for the sampler, sample episodes, learn from what they earned."""

from __future__ import annotations

from typing import Any

import numpy as np

from examples.reference_fleet.api_client import ApiClient, RequestFailedError, succeeded
from examples.reference_fleet.envelope import has_failed
from examples.reference_fleet.policy import advantages
from examples.reference_fleet.runs import RunPlan
from examples.reference_fleet.tensors import Array, encode_array

_GROUPS = 4  # sampling requests a step
_GROUP_EPISODES = 4
_MAX_EPISODE_STEPS = 200
_POLE_LENGTHS = (0.5, 0.25, 0.9, 0.35)  # half the pole, in metres; each epoch has another, to be learnt anew


def as_data(sequences: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one datum an episode: every step survived has earned 1."""
    rewards: list[Array] = [np.ones(len(sequence["tokens"])) for sequence in sequences]
    return [
        {
            "model_input": sequence["observations"],
            "loss_fn_inputs": {
                "target_tokens": encode_array(np.array(sequence["tokens"])),
                "logprobs": sequence["logprobs"],
                "advantages": encode_array(advantage),
                "rewards": encode_array(reward),
            },
        }
        for sequence, advantage, reward in zip(sequences, advantages(rewards), rewards, strict=True)
    ]


class ControlLoop:
    """Trains a policy by policy gradient; the same seed brings the same episodes."""

    def __init__(self, plan: RunPlan, api: ApiClient, seed: int) -> None:
        self._api, self._seed = api, seed
        self._adam = {"learning_rate": plan.learning_rate, "grad_clip_norm": 1.0}

    def ops_of(self, _step: int) -> int:
        """Return how many ops a step sends, for the pace: a save, the samples, a backward pass and an optim_step."""
        return _GROUPS + 3

    def run_step(self, step: int, epoch: int) -> str:
        """Train one step. Returns a line for the log; raises what the client raises."""
        weights = self._api.call("save_weights_for_sampler", {})["path"]
        sequences = self._sample(weights, step, _POLE_LENGTHS[epoch % len(_POLE_LENGTHS)])
        data = as_data(sequences)
        learnt = self._api.submit("forward_backward", {"data": data, "loss_fn": "importance_sampling"})
        optim_step = self._api.submit("optim_step", {"adam_params": self._adam})
        learnt_result, stepped = self._api.results([learnt, optim_step])
        norm = succeeded(stepped)["metrics"]["grad_norm:mean"]
        if has_failed(learnt_result):  # the step was made from nothing
            return f"forward_backward failed, gradient norm {norm:.3f}"
        return f"reward {learnt_result['metrics']['reward:mean']:.1f}, gradient norm {norm:.3f}"

    def _sample(self, weights: str, step: int, pole_length: float) -> list[dict[str, Any]]:
        sent = [
            self._api.submit(
                "asample",
                {
                    "sampler_weights_ref": weights,
                    "num_samples": _GROUP_EPISODES,
                    "max_tokens": _MAX_EPISODE_STEPS,
                    "seed": (self._seed * 1_000_003 + step) * _GROUPS + group,
                    "pole_length": pole_length,
                },
            )
            for group in range(_GROUPS)
        ]
        answers = [result for result in self._api.results(sent) if not has_failed(result)]
        if not answers:
            raise RequestFailedError("no episode was sampled")
        return [sequence for answer in answers for sequence in answer["sequences"]]
