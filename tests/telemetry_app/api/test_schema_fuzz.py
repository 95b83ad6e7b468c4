"""Whatever the schema allows a caller to send is answered as the schema says: generated requests, all endpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import yaml
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, op, sample_failure, sample_group, step_of_ops, turn, worker

pytestmark = pytest.mark.django_db
FILE = Path(__file__).parents[3] / "docs" / "openapi.yaml"
DOCUMENT = yaml.safe_load(FILE.read_text())
OPERATIONS = {
    operation.path: operation
    for operation in (found.ok() for found in schemathesis.openapi.from_path(FILE).get_all_operations())
    # Streams never end, and the document is no answer about runs.
    if not operation.path.endswith("/events") and "/api/" not in operation.path.removeprefix("/api/")
} | {
    found.ok().path: found.ok()
    for found in schemathesis.openapi.from_path(FILE).get_all_operations()
    if found.ok().path.endswith("workers/{worker}/events")
}


@pytest.fixture
def filled(writer, now):
    """A run with something of each kind, in history and live."""
    for part in (0, 1):
        at = now - 60 + 30 * part
        writer.operations(*step_of_ops(part, at=at), op(at=at, step=part, status="failed", error_type="ValueError"))
        writer.samples(sample_group(at=at, count=7), sample_failure(at=at))
        writer.turns(turn(at=at))
        writer.workers(worker(at=at))
        writer.ledger(enqueued=6, answered=4)
        if part == 0:
            take_snapshot()


@pytest.mark.parametrize("path", sorted(OPERATIONS))
def test_generated_requests_are_answered_as_documented(client: Client, token: str, filled, path: str) -> None:
    operation = OPERATIONS[path]
    responses = DOCUMENT["paths"][path]["get"]["responses"]

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy(), is_known=st.booleans())
    def check(case: Any, is_known: bool) -> None:
        if is_known and "run" in (case.path_parameters or {}):
            case.path_parameters["run"] = RUN
        answer = client.get(
            case.formatted_path, case.query or {}, headers={"Authorization": f"Token {token}", "Accept": "*/*"}
        )
        assert str(answer.status_code) in responses, answer.content[:500]
        if answer.status_code == 200 and answer.headers["Content-Type"] == "application/json":
            body = json.loads(answer.content, parse_constant=pytest.fail)
            assert faults(responses["200"]["content"]["application/json"]["schema"], body) == []

    check()


def faults(schema: dict[str, Any], body: Any) -> list[str]:
    """Return where an answer is not what its schema says."""
    validator = Draft202012Validator({**schema, "components": DOCUMENT["components"]})
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(body)]
