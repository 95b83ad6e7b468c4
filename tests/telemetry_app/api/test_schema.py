"""The OpenAPI document: committed as it is generated, complete, and true of the examples and of real answers."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from django.core.management import call_command

from telemetry_app.api.docs import the_schema
from telemetry_app.api.schema import BASE, EXAMPLES, real_example
from telemetry_app.api.urls import urlpatterns
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, op, sample_failure, step_of_ops, turn, worker
from tests.telemetry_app.api.conftest import run_path

COMMITTED = Path(__file__).parents[3] / "docs" / "openapi.yaml"


def operations():
    """Return (path, operation) of each endpoint."""
    return [(path.removeprefix(BASE), methods["get"]) for path, methods in the_schema()["paths"].items()]


def json_of(operation):
    """Return the JSON part of an operation's answer: schema and examples."""
    return operation["responses"]["200"]["content"]["application/json"]


def check(value, schema):
    """Validate a value; objects may have no name that the schema does not tell."""
    told = {name: closed(part) for name, part in the_schema()["components"]["schemas"].items()}
    jsonschema.Draft202012Validator({**schema, "components": {"schemas": told}}).validate(value)


def closed(schema):
    return (
        {**schema, "additionalProperties": schema.get("additionalProperties", False)}
        if "properties" in schema
        else schema
    )


def test_the_committed_document_is_the_generated_one(tmp_path):
    generated = tmp_path / "openapi.yaml"
    call_command("spectacular", file=str(generated), validate=True, fail_on_warn=True)
    same = generated.read_text() == COMMITTED.read_text()
    assert same, "run: python manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml"


def test_the_document_is_openapi_3_1():
    assert yaml.safe_load(COMMITTED.read_text())["openapi"].startswith("3.1")


def test_the_document_has_every_endpoint():
    patterns = {str(pattern.pattern) for pattern in urlpatterns} - {"<path:unknown>", ""}
    expected = {"/" + re.sub(r"<path:(\w+)>", r"{\1}", pattern) for pattern in patterns}
    assert {path for path, _ in operations()} == expected | {"/healthz", "/readyz"}


@pytest.mark.parametrize("index", range(len(operations())))
def test_an_endpoint_is_described(index):
    path, operation = operations()[index]
    assert operation["summary"]
    assert operation["description"]
    assert [each["name"] for each in operation.get("parameters", []) if not each.get("description")] == []
    if operation["security"] not in ([{}], [{"cookieAuth": []}]):
        assert {"400", "401", "403", "406", "429"} <= set(operation["responses"])
    assert ("404" in operation["responses"]) == ("{" in path)


def test_every_field_of_an_answer_has_its_meaning():
    schemas = the_schema()["components"]["schemas"]
    unexplained = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, part in schema.get("properties", {}).items()
        if "description" not in part and not re.search("schemas/|'type': 'null'", str(part))
    ]
    assert unexplained == []


def test_fields_of_durations_are_named_with_their_unit():
    schemas = the_schema()["components"]["schemas"]
    texts = {field: str(part) for each in schemas.values() for field, part in each.get("properties", {}).items()}
    assert [field for field, text in texts.items() if "In seconds." in text and not re.search("seconds$", field)] == []


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in EXAMPLES.glob("*_*.json") if path.stem != "plain_endpoints")
)
def test_an_example_is_as_its_schema_says(name):
    [found] = [operation for _, operation in operations() if operation["operationId"] == name]
    [shown] = json_of(found)["examples"].values()
    assert shown["value"] == real_example(name)
    check(shown["value"], json_of(found)["schema"])


def test_examples_of_errors_are_as_their_schema_says():
    for response in the_schema()["components"]["responses"].values():
        content = response["content"]["application/json"]
        check(content["examples"]["real"]["value"], content["schema"])


@pytest.fixture
def something_of_everything(writer, now):
    writer.operations(*step_of_ops(0, at=now - 60), op(at=now - 50, step=1, status="failed"))
    writer.samples(sample_failure(at=now - 40))
    held = [{"run_id": RUN, "operation": "optim_step", "count": 1, "oldest_at": now - 30, "request_ids": ["r-1"]}]
    wanted = {"workload": "trainer", "requested_at": now - 6}
    writer.workers(worker("w-1", at=now - 5, outstanding=held, turn=wanted))
    writer.turns(turn(at=now - 20))
    writer.steps(1)
    writer.active(RUN, now - 5)


PATHS = {
    "/runs": "/runs", "/runs/{run}": run_path(RUN), "/runs/{run}/steps": run_path(RUN, "/steps"),
    "/runs/{run}/operations": run_path(RUN, "/operations"), "/runs/{run}/failures": run_path(RUN, "/failures"),
    "/failures": "/failures", "/workers": "/workers", "/workers/{worker}": "/workers/w-1",
    "/workers/{worker}/events": "/workers/w-1/events", "/retention": "/retention", "/requests": "/requests",
    "/runs/{run}/requests": run_path(RUN, "/requests"), "/runs/{run}/samples": run_path(RUN, "/samples"),
    "/runs/{run}/turns": run_path(RUN, "/turns"), "/runs/{run}/time": run_path(RUN, "/time"),
    "/devices": "/devices", "/devices/{device}/time": "/devices/unnamed/time", "/fleet": "/fleet",
    "/runs/{run}/verdict": run_path(RUN, "/verdict"), "/runs/{run}/incidents": run_path(RUN, "/incidents"),
    "/incidents": "/incidents", "/turns": "/turns",
    "/runs/{run}/metrics": run_path(RUN, "/metrics?names=grad_norm:mean,grad_norm&points=2"),
}  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kept", ["live", "both", "history"])
def test_an_answer_is_as_its_schema_says(api, something_of_everything, writer, path, kept):
    if kept != "live":
        take_snapshot()
    if kept == "history":
        writer.client.flushdb()
    check(api.answer(PATHS[path]), json_of(dict(operations())[path])["schema"])


def test_every_endpoint_that_answers_json_is_asked():
    plain = {"/healthz", "/readyz", "/api/schema", "/api/docs", "/events", "/runs/{run}/events"}
    assert {path for path, _ in operations()} == PATHS.keys() | plain


def test_steps_cut_by_fields_are_as_their_schema_says(api, something_of_everything, db):
    answer = api.answer(run_path(RUN, "/steps"), fields="operations.optim_step.seconds")
    check(answer, json_of(dict(operations())["/runs/{run}/steps"])["schema"])


def test_the_document_is_served_to_those_who_are_signed_in(api, client, db):
    assert api.answer("/api/schema")["openapi"].startswith("3.1")
    assert client.get(BASE + "/api/schema").status_code == 401
    assert client.get(BASE + "/api/docs").status_code == 302


def test_the_document_is_served_as_yaml_too(api, db):
    headers = {"Authorization": f"Token {api.token}", "Accept": "application/yaml"}
    response = api.client.get(BASE + "/api/schema", headers=headers)
    assert yaml.safe_load(response.content)["openapi"].startswith("3.1")
