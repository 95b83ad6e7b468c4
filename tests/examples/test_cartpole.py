"""The control task: dynamics, rollouts, and a policy that learns from them."""

import numpy as np
import pytest

from examples.reference_fleet import control_loop
from examples.reference_fleet.cartpole import advance, has_fallen, rollout
from examples.reference_fleet.model import Model
from examples.reference_fleet.network import Network
from examples.reference_fleet.policy import advantages
from examples.reference_fleet.sampler import as_sequence

ADAM = {"learning_rate": 0.02, "grad_clip_norm": 1.0}


def as_data(episodes):
    return control_loop.as_data([as_sequence(episode) for episode in episodes])


def test_policy_gradient_keeps_the_pole_up_longer():
    model = Model((4, 24, 2), seed=0)
    rewards = []
    for step in range(20):
        episodes = rollout(model.network, count=16, max_steps=150, seed=step)
        rewards.append(model.forward_backward(as_data(episodes), "importance_sampling")["reward:mean"])
        model.optim_step(ADAM)
    assert np.mean(rewards[:3]) < 60 < 100 < np.mean(rewards[-3:])


def test_reward_is_the_number_of_steps_survived():
    episodes = rollout(Network((4, 4, 2), seed=0), count=8, max_steps=50, seed=3)
    metrics = Model((4, 4, 2), seed=0).forward_backward(as_data(episodes), "importance_sampling")
    assert metrics["reward:mean"] == pytest.approx(np.mean([len(episode.actions) for episode in episodes]))


def test_rollout_of_the_same_seed_is_the_same():
    network = Network((4, 4, 2), seed=0)
    first, second = (rollout(network, count=3, max_steps=40, seed=7) for _ in range(2))
    assert [episode.actions.tolist() for episode in first] == [episode.actions.tolist() for episode in second]


def test_episode_never_goes_on_after_its_fall():
    for episode in rollout(Network((4, 4, 2), seed=0), count=8, max_steps=200, seed=1):
        assert not has_fallen(episode.observations).any()


def test_push_to_the_right_tips_the_pole_to_the_left():
    state = np.zeros((1, 4))
    pushed = advance(state, np.array([1]), pole_length=0.5)
    assert pushed[0, 1] > 0
    assert pushed[0, 3] < 0


def test_advantages_have_no_mean_and_unit_deviation_over_the_batch():
    joined = np.concatenate(advantages([np.ones(5), np.ones(20)]))
    assert joined.mean() == pytest.approx(0.0, abs=1e-9)
    assert joined.std() == pytest.approx(1.0, abs=1e-6)
