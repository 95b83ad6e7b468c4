"""JSON as the API sends it: compact UTF-8, encoded by msgspec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from rest_framework.renderers import BaseRenderer


class CompactJSONRenderer(BaseRenderer):
    """Encodes with msgspec, which has no word for NaN or Infinity: JSON has none either."""

    media_type = "application/json"
    format = "json"
    charset = None  # JSON is UTF-8

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return the answer's bytes."""
        return b"" if data is None else msgspec.json.encode(data, enc_hook=str)
