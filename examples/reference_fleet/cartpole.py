"""Cart-pole dynamics, many poles at a time: push the cart left or right so that the pole stays up.

The equations and constants are those of Barto, Sutton and Anderson (1983), with Euler steps of 0.02 s; an episode
ends at 12 degrees, 2.4 m from the middle, or at its last step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from examples.reference_fleet.network import Network, log_softmax
from examples.reference_fleet.tensors import Array

_GRAVITY = 9.8
_CART_MASS = 1.0  # kg
_POLE_MASS = 0.1  # kg
_FORCE = 10.0  # N
_STEP_SECONDS = 0.02
_ANGLE_LIMIT = np.radians(12.0)
_POSITION_LIMIT = 2.4  # m


@dataclass(frozen=True, slots=True)
class Episode:
    """One rollout: an observation, an action and its log-probability per step survived; each step's reward is 1."""

    observations: Array
    actions: Array
    logprobs: Array

    @property
    def reward(self) -> float:
        """How many steps the pole stayed up."""
        return float(len(self.actions))


def advance(state: Array, actions: Array, *, pole_length: float) -> Array:
    """Return the next states (position, speed, angle, angular speed); `pole_length` is half the pole, in metres."""
    _, speed, angle, angular_speed = state.T
    sine, cosine = np.sin(angle), np.cos(angle)
    total_mass = _CART_MASS + _POLE_MASS
    force = np.where(actions == 1, _FORCE, -_FORCE)
    push = (force + _POLE_MASS * pole_length * angular_speed**2 * sine) / total_mass
    inertia = pole_length * (4.0 / 3.0 - _POLE_MASS * cosine**2 / total_mass)
    angular_acceleration = (_GRAVITY * sine - cosine * push) / inertia
    acceleration = push - _POLE_MASS * pole_length * angular_acceleration * cosine / total_mass
    rates = np.stack([speed, acceleration, angular_speed, angular_acceleration], axis=1)
    return np.asarray(state + _STEP_SECONDS * rates)


def has_fallen(state: Array) -> Array:
    """Say of each state whether its episode is over."""
    return np.asarray((np.abs(state[:, 0]) > _POSITION_LIMIT) | (np.abs(state[:, 2]) > _ANGLE_LIMIT))


def rollout(network: Network, *, count: int, max_steps: int, seed: int, pole_length: float = 0.5) -> list[Episode]:
    """Play `count` episodes side by side, each action drawn from the policy's probabilities."""
    rng = np.random.default_rng(seed)
    state = rng.uniform(-0.05, 0.05, (count, 4))
    alive = np.ones(count, dtype=bool)
    observations, actions, logprobs, was_alive = [], [], [], []
    for _ in range(max_steps):
        chances = log_softmax(network.forward(state)[0])
        action = (rng.random(count) < np.exp(chances[:, 1])).astype(np.int64)
        observations.append(state)
        actions.append(action)
        logprobs.append(chances[np.arange(count), action])
        was_alive.append(alive)
        state = advance(state, action, pole_length=pole_length)
        alive = alive & ~has_fallen(state)
        if not alive.any():
            break
    return _episodes(np.array(observations), np.array(actions), np.array(logprobs), np.array(was_alive))


def _episodes(observations: Array, actions: Array, logprobs: Array, was_alive: Array) -> list[Episode]:
    lengths = was_alive.sum(axis=0)
    return [
        Episode(observations[:length, index], actions[:length, index], logprobs[:length, index])
        for index, length in enumerate(lengths)
    ]
