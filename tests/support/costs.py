"""What an answer costs: queries of PostgreSQL and round trips to Redis."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from telemetry_app import readers


def cost_of(api: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Return how many queries and how many round trips to Redis an answer takes."""
    path, _, query = path.partition("?")
    parameters = dict([query.split("=")]) if query else {}
    trips = []
    original = readers._pipeline

    def counted(commands: Any) -> Any:
        trips.append(1)
        return original(commands)

    with monkeypatch.context() as patch, CaptureQueriesContext(connection) as queries:
        patch.setattr(readers, "_pipeline", counted)
        api.answer(path, **parameters)
    return len(queries), len(trips)
