"""The trainer's model: real gradients, real learning, and what survives a save."""

import math

import numpy as np
import pytest

from examples.reference_fleet.datasets import DATASETS, as_data
from examples.reference_fleet.losses import cross_entropy, importance_sampling
from examples.reference_fleet.model import Model
from examples.reference_fleet.network import Network
from examples.reference_fleet.runs import RUNS

ADAM = {"learning_rate": 0.01, "grad_clip_norm": 1.0}


def draw(task, *, seed, count=96, epoch=0):
    return as_data(DATASETS[task](np.random.default_rng(seed), count, epoch))


def train(model, task, *, steps):
    for step in range(steps):
        model.forward_backward(draw(task, seed=step), "cross_entropy")
        model.optim_step(ADAM)


def evaluate(model, task):
    return model.forward_backward(draw(task, seed=10_000, count=256), "cross_entropy", forward_only=True)


@pytest.mark.parametrize(("run", "reached"), [("digits-classifier", 0.75), ("spirals-classifier", 0.9)])
def test_classifier_learns(run, reached):
    plan = RUNS[run]
    model = Model(plan.layers, seed=0)
    before = evaluate(model, plan.task)

    train(model, plan.task, steps=100)

    after = evaluate(model, plan.task)
    assert before["accuracy:mean"] < 0.5 < reached < after["accuracy:mean"]
    assert after["loss:mean"] < before["loss:mean"]


def test_loss_sum_is_the_mean_times_the_examples():
    metrics = evaluate(Model((64, 8, 10), seed=0), "digits")
    assert metrics["loss:sum"] == pytest.approx(256 * metrics["loss:mean"])


@pytest.mark.parametrize("loss_fn", [cross_entropy, importance_sampling])
def test_gradient_is_the_slope_of_the_loss(loss_fn):
    rng = np.random.default_rng(1)
    network = Network((3, 5, 2), seed=2)
    inputs = rng.normal(size=(7, 3))
    loss_inputs = {
        "target_tokens": rng.integers(0, 2, 7),
        "logprobs": np.log(rng.uniform(0.2, 0.8, 7)),
        "advantages": rng.normal(size=7),
    }

    logits, layer_inputs = network.forward(inputs)
    gradients = network.backward(layer_inputs, loss_fn(logits, loss_inputs).logits_gradient)

    for parameter, gradient in zip(network.parameters, gradients, strict=True):
        slope = np.empty_like(parameter)
        for index in np.ndindex(parameter.shape):
            kept, losses = parameter[index], []
            for shift in (1e-5, -1e-5):
                parameter[index] = kept + shift
                losses.append(loss_fn(network.forward(inputs)[0], loss_inputs).sum)
            parameter[index] = kept
            slope[index] = (losses[0] - losses[1]) / 2e-5
        assert gradient == pytest.approx(slope, abs=1e-6)


def test_forward_only_leaves_no_gradient():
    model = Model((64, 8, 10), seed=0)
    evaluate(model, "digits")
    assert model.optim_step(ADAM)["grad_norm:mean"] == 0.0


def test_two_micro_batches_make_the_gradient_of_both():
    data = draw("spirals", seed=0)
    halves, whole = Model((2, 8, 3), seed=0), Model((2, 8, 3), seed=0)

    halves.forward_backward(data[:48], "cross_entropy")
    halves.forward_backward(data[48:], "cross_entropy")
    whole.forward_backward(data, "cross_entropy")

    assert halves.optim_step(ADAM)["grad_norm:mean"] == pytest.approx(whole.optim_step(ADAM)["grad_norm:mean"])


def test_gradient_that_is_not_finite_is_reported_and_moves_no_weight():
    model = Model((2, 8, 3), seed=0)
    before = [parameter.copy() for parameter in model.network.parameters]
    model.forward_backward(draw("spirals", seed=0), "cross_entropy")
    model.spoil_gradient()

    metrics = model.optim_step(ADAM)

    assert math.isnan(metrics["grad_norm:mean"])
    assert all((old == new).all() for old, new in zip(before, model.network.parameters, strict=True))
    model.forward_backward(draw("spirals", seed=1), "cross_entropy")
    assert math.isfinite(model.optim_step(ADAM)["grad_norm:mean"])


def test_loaded_model_goes_on_as_the_saved_one(tmp_path):
    model = Model((2, 8, 3), seed=0)
    train(model, "spirals", steps=5)
    model.save(tmp_path / "run" / "newest.npz")
    loaded = Model.load(tmp_path / "run" / "newest.npz")

    train(model, "spirals", steps=3)
    train(loaded, "spirals", steps=3)

    assert loaded.step_count == 8
    assert evaluate(loaded, "spirals") == evaluate(model, "spirals")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["newest.npz"]
