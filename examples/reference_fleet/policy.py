"""From rollouts to what a policy gradient learns from: discounted rewards-to-go, made comparable over the batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from examples.reference_fleet.tensors import Array

_DISCOUNT = 0.99


def advantages(rewards: Sequence[Array]) -> list[Array]:
    """Return an advantage per step of each episode, with a mean of 0 and a deviation of 1 over all of them."""
    returns = [_rewards_to_go(episode) for episode in rewards]
    joined = np.concatenate(returns)
    return [(episode - joined.mean()) / (joined.std() + 1e-8) for episode in returns]


def _rewards_to_go(rewards: Array) -> Array:
    total, result = 0.0, np.empty(len(rewards))
    for index in range(len(rewards) - 1, -1, -1):
        total = float(rewards[index]) + _DISCOUNT * total
        result[index] = total
    return result
