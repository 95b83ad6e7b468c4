"""Generated data of the classifier runs; each epoch is a little different, so that there is something to learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from examples.reference_fleet.tensors import Array, encode_array

Examples = tuple[Array, Array]  # inputs (count × size), labels (count)

_GLYPHS = (  # ten digits, 7 rows of 5 pixels
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00010 00100 01000 11111",
    "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)
_DIGITS = np.array([[[float(pixel) for pixel in row] for row in glyph.split()] for glyph in _GLYPHS])


def digits(rng: np.random.Generator, count: int, epoch: int) -> Examples:
    """Draw 8 × 8 pictures of digits, shifted, faint and noisy; each epoch has a writer with another ink and hand."""
    labels = rng.integers(0, 10, count)
    pictures = np.zeros((count, 8, 8))
    rows, columns = rng.integers(0, 2, count), rng.integers(0, 4, count)
    for index, label in enumerate(labels):
        row, column = rows[index], columns[index]
        pictures[index, row : row + 7, column : column + 5] = _DIGITS[label]
    writer = np.random.default_rng(epoch)
    ink = rng.uniform(0.5, 1.0, (count, 1, 1)) * writer.uniform(0.7, 1.3, (1, 8, 8))
    noise = rng.normal(0.0, 0.1 + 0.1 * writer.random(), pictures.shape)
    return (pictures * ink + noise).reshape(count, 64), labels


def spirals(rng: np.random.Generator, count: int, epoch: int) -> Examples:
    """Draw points of three spiral arms; each epoch turns them by a further 40 degrees."""
    labels = rng.integers(0, 3, count)
    radius = rng.uniform(0.1, 1.0, count)
    angle = 4.0 * radius + 2.0 * np.pi * labels / 3.0 + np.radians(40.0) * epoch + rng.normal(0.0, 0.12, count)
    return 2.0 * radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1), labels


DATASETS: Mapping[str, Callable[[np.random.Generator, int, int], Examples]] = {"digits": digits, "spirals": spirals}


def as_data(examples: Examples) -> list[dict[str, Any]]:
    """Return one datum an example, as `forward_backward` takes them."""
    return [
        {
            "model_input": encode_array(inputs[None, :]),
            "loss_fn_inputs": {"target_tokens": encode_array(np.array([label]))},
        }
        for inputs, label in zip(*examples, strict=True)
    ]
