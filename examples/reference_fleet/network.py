"""A multi-layer perceptron with tanh units and a linear output, and its gradient."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from examples.reference_fleet.tensors import Array


class Network:
    """Weights and biases of all layers, in `parameters`: w1, b1, w2, b2, …"""

    def __init__(self, layers: tuple[int, ...], *, seed: int) -> None:
        """Draw the weights with a deviation of 1/sqrt(inputs); `layers` are the sizes, input first."""
        rng = np.random.default_rng(seed)
        self.layers = tuple(layers)
        self.parameters: list[Array] = []
        for inputs, outputs in pairwise(layers):
            self.parameters.append(rng.normal(0.0, inputs**-0.5, (inputs, outputs)))
            self.parameters.append(np.zeros(outputs))

    def forward(self, inputs: Array) -> tuple[Array, list[Array]]:
        """Return the logits, and the input of each layer for `backward`."""
        activations, layer_inputs = inputs, []
        for weights, biases in self._layers():
            layer_inputs.append(activations)
            activations = np.tanh(activations @ weights + biases)
        layer_inputs.append(activations)
        return activations @ self.parameters[-2] + self.parameters[-1], layer_inputs

    def backward(self, layer_inputs: list[Array], logits_gradient: Array) -> list[Array]:
        """Return the gradient of each parameter, in the order of `parameters`."""
        gradients: list[Array] = []
        upstream = logits_gradient
        for depth in range(len(layer_inputs) - 1, -1, -1):
            inputs = layer_inputs[depth]
            gradients = [inputs.T @ upstream, upstream.sum(axis=0), *gradients]
            if depth:
                upstream = (upstream @ self.parameters[2 * depth].T) * (1.0 - inputs**2)
        return gradients

    def _layers(self) -> list[tuple[Array, Array]]:
        hidden = self.parameters[:-2]
        return list(zip(hidden[::2], hidden[1::2], strict=True))


def log_softmax(logits: Array) -> Array:
    """Return the logarithm of the probabilities that the logits stand for, row by row."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
