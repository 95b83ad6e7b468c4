"""Arrays in JSON: `{"data": base64, "dtype": "float32", "shape": [..]}`, little-endian."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_DTYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "int64": np.dtype("<i8")}


def encode_array(array: Array) -> dict[str, Any]:
    """Return the array as a JSON object: whole numbers as int64, others as float32."""
    name = "int64" if np.issubdtype(array.dtype, np.integer) else "float32"
    data = np.ascontiguousarray(array, dtype=_DTYPES[name]).tobytes()
    return {"data": base64.b64encode(data).decode("ascii"), "dtype": name, "shape": list(array.shape)}


def decode_array(encoded: dict[str, Any]) -> Array:
    """Return the array that `encode_array` encoded.

    Raises:
        KeyError: the type is none of the two.
        ValueError: the data are not as long as the shape says.
    """
    data = base64.b64decode(encoded["data"])
    return np.frombuffer(data, dtype=_DTYPES[encoded["dtype"]]).reshape(encoded["shape"])
