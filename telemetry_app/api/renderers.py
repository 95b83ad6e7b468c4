"""Answers as they are sent: compact JSON encoded by msgspec, or CSV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from rest_framework.renderers import BaseRenderer

from telemetry_app.api.conditional import finish


class CompactJSONRenderer(BaseRenderer):
    """Encodes with msgspec, which has no word for NaN or Infinity: JSON has none either."""

    media_type = "application/json"
    format = "json"
    charset = None  # JSON is UTF-8

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return the answer's bytes; none where the caller has them already."""
        if data is None:
            return b""
        content = msgspec.json.encode(data, enc_hook=str)
        response = renderer_context.get("response") if renderer_context else None
        return content if response is None else finish(content, data, (renderer_context or {}).get("request"), response)


class CsvRenderer(CompactJSONRenderer):
    """Stands for CSV where a view streams it (see `tables.py`); what is rendered here are errors, and they are JSON."""

    media_type = "text/csv"
    format = "csv"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return an error's bytes."""
        if data is not None and renderer_context:
            renderer_context["response"].headers["Content-Type"] = CompactJSONRenderer.media_type
        return super().render(data, accepted_media_type, renderer_context)
