"""The loss functions a client can name: the loss, its gradient by the logits, and what else is worth a metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from examples.reference_fleet.network import log_softmax
from examples.reference_fleet.tensors import Array


@dataclass(frozen=True, slots=True)
class Loss:
    """`sum` over all tokens, the gradient of that sum, and means over the tokens."""

    sum: float
    logits_gradient: Array
    means: Mapping[str, float] = field(default_factory=dict)


def cross_entropy(logits: Array, inputs: Mapping[str, Array]) -> Loss:
    """Return the negative log-likelihood of `target_tokens`."""
    targets = inputs["target_tokens"]
    logprobs = log_softmax(logits)
    rows = np.arange(len(targets))
    gradient = np.exp(logprobs)
    gradient[rows, targets] -= 1.0
    accuracy = float((logits.argmax(axis=1) == targets).mean())
    return Loss(float(-logprobs[rows, targets].sum()), gradient, {"accuracy:mean": accuracy})


def importance_sampling(logits: Array, inputs: Mapping[str, Array]) -> Loss:
    """Return the policy-gradient loss −Σ ratio · advantage, the ratio being that of the policy to the sampler.

    `logprobs` are the sampler's for `target_tokens`; `kl:mean` is the mean of (ratio − 1) − log ratio.
    """
    targets, advantages = inputs["target_tokens"], inputs["advantages"]
    logprobs = log_softmax(logits)
    probabilities = np.exp(logprobs)
    rows = np.arange(len(targets))
    log_ratio = logprobs[rows, targets] - inputs["logprobs"]
    weighted = np.exp(log_ratio) * advantages
    gradient = probabilities * weighted[:, None]
    gradient[rows, targets] -= weighted
    means = {
        "entropy:mean": float(-(probabilities * logprobs).sum(axis=1).mean()),
        "kl:mean": float((np.exp(log_ratio) - 1.0 - log_ratio).mean()),
    }
    return Loss(float(-weighted.sum()), gradient, means)


LOSSES: Mapping[str, Callable[[Array, Mapping[str, Array]], Loss]] = {
    "cross_entropy": cross_entropy,
    "importance_sampling": importance_sampling,
}
