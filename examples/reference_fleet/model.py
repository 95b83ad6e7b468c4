"""A model in training: its network, the gradient collected since the last step, and Adam's moments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.reference_fleet.losses import LOSSES
from examples.reference_fleet.network import Network
from examples.reference_fleet.tensors import Array, decode_array

Datum = Mapping[str, Any]  # {"model_input": array, "loss_fn_inputs": {name: array}}, arrays encoded


class Model:
    """What a trainer keeps of one run."""

    def __init__(self, layers: tuple[int, ...], *, seed: int) -> None:
        self.network = Network(layers, seed=seed)
        self.step_count = 0
        self._first_moments = [np.zeros_like(parameter) for parameter in self.network.parameters]
        self._second_moments = [np.zeros_like(parameter) for parameter in self.network.parameters]
        self._gradient: list[Array] = []
        self._token_count = 0
        self._forget_gradient()

    def forward_backward(self, data: Sequence[Datum], loss_fn: str, *, forward_only: bool = False) -> dict[str, float]:
        """Add the data's gradient to what is collected, unless `forward_only`, and return the metrics.

        Raises:
            KeyError: no loss is called so, or it misses one of its inputs.
        """
        inputs, loss_inputs = _joined(data)
        logits, layer_inputs = self.network.forward(inputs)
        loss = LOSSES[loss_fn](logits, loss_inputs)
        if not forward_only:
            gradients = self.network.backward(layer_inputs, loss.logits_gradient)
            self._gradient = [old + new for old, new in zip(self._gradient, gradients, strict=True)]
            self._token_count += len(logits)
        metrics = {"loss:sum": loss.sum, "loss:mean": loss.sum / len(logits), **loss.means}
        if "rewards" in loss_inputs:
            metrics["reward:mean"] = float(loss_inputs["rewards"].sum()) / len(data)
        return metrics

    def optim_step(self, adam: Mapping[str, float]) -> dict[str, float]:
        """Take one Adam step along the mean gradient of what was collected, and return the metrics.

        A gradient that is not finite is reported and thrown away: the weights stay as they are.
        """
        gradient = [part / max(1, self._token_count) for part in self._gradient]
        self._forget_gradient()
        self.step_count += 1
        norm = math.sqrt(sum(float((part**2).sum()) for part in gradient))
        if math.isfinite(norm):
            clip = adam.get("grad_clip_norm", 0.0)
            scale = min(1.0, clip / norm) if clip and norm else 1.0
            self._update([part * scale for part in gradient], adam)
        return {"grad_norm:mean": norm, "learning_rate:mean": adam["learning_rate"]}

    def spoil_gradient(self) -> None:
        """Make one number of the collected gradient NaN, as an overflow on a real device does."""
        self._gradient[0].flat[0] = math.nan

    def save(self, path: Path) -> None:
        """Write all that training goes on from; a file of that name is replaced at once or not at all."""
        parts = [*self.network.parameters, *self._first_moments, *self._second_moments]
        save_arrays(path, [np.array([self.step_count]), np.array(self.network.layers), *parts])

    @classmethod
    def load(cls, path: Path) -> Model:
        """Read what `save` wrote; gradients collected before it are gone.

        Raises:
            OSError: there is no such file.
        """
        (step_count, layers), parts = (arrays := load_arrays(path))[:2], arrays[2:]
        model = cls(tuple(int(size) for size in layers), seed=0)
        third = len(parts) // 3
        model.step_count = int(step_count[0])
        model.network.parameters = parts[:third]
        model._first_moments, model._second_moments = parts[third : 2 * third], parts[2 * third :]
        return model

    def _forget_gradient(self) -> None:
        self._gradient = [np.zeros_like(parameter) for parameter in self.network.parameters]
        self._token_count = 0

    def _update(self, gradient: list[Array], adam: Mapping[str, float]) -> None:
        beta1, beta2, eps = adam.get("beta1", 0.9), adam.get("beta2", 0.95), adam.get("eps", 1e-12)
        for index, part in enumerate(gradient):
            first = self._first_moments[index] = beta1 * self._first_moments[index] + (1 - beta1) * part
            second = self._second_moments[index] = beta2 * self._second_moments[index] + (1 - beta2) * part**2
            mean = first / (1 - beta1**self.step_count)
            deviation = np.sqrt(second / (1 - beta2**self.step_count))
            self.network.parameters[index] = self.network.parameters[index] - adam["learning_rate"] * mean / (
                deviation + eps
            )


def save_arrays(path: Path, arrays: Sequence[Array]) -> None:
    """Write arrays to one file in their order; a file of that name is replaced at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        np.savez(file, *arrays)
    unfinished.replace(path)


def load_arrays(path: Path) -> list[Array]:
    """Read what `save_arrays` wrote, in the order it was written."""
    with path.open("rb") as raw, np.load(raw) as file:  # opened here: NumPy leaves a damaged file open
        return [file[f"arr_{index}"] for index in range(len(file.files))]


def _joined(data: Sequence[Datum]) -> tuple[Array, dict[str, Array]]:
    inputs = np.concatenate([decode_array(datum["model_input"]) for datum in data]).astype(np.float64)
    names = data[0]["loss_fn_inputs"]
    joined = {name: np.concatenate([decode_array(datum["loss_fn_inputs"][name]) for datum in data]) for name in names}
    return inputs, joined
