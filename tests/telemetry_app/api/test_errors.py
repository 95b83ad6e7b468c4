"""One shape for every error, and no page of the site where JSON is due."""

from __future__ import annotations

import json

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework import exceptions

from telemetry_app.api.errors import exception_handler
from telemetry_app.exceptions import (
    HistoryUnavailableError,
    InvalidQueryError,
    LiveDataUnavailableError,
    NotFoundError,
)
from tests.telemetry_app.api.conftest import BASE


@pytest.mark.parametrize(
    ("error", "status", "kind", "code", "attr"),
    [
        (InvalidQueryError("last", "last=0 must be more."), 400, "validation_error", "invalid", "last"),
        (NotFoundError("There is no run 'a'."), 404, "client_error", "not_found", None),
        (Http404(), 404, "client_error", "not_found", None),
        (PermissionDenied(), 403, "client_error", "permission_denied", None),
        (exceptions.NotAuthenticated(), 401, "client_error", "not_authenticated", None),
        (exceptions.Throttled(wait=7), 429, "client_error", "throttled", None),
        (LiveDataUnavailableError("Redis can't be read."), 503, "server_error", "sources_unavailable", None),
        (HistoryUnavailableError("PostgreSQL can't be read."), 503, "server_error", "sources_unavailable", None),
    ],
)
def test_an_error_has_its_status_and_the_one_shape(error, status, kind, code, attr):
    response = exception_handler(error, {})
    assert (response.status_code, response.data["type"]) == (status, kind)
    [entry] = response.data["errors"]
    assert (entry["code"], entry["attr"]) == (code, attr)
    assert entry["detail"]


def test_errors_of_several_fields_are_told_apart():
    error = exceptions.ValidationError({"last": ["too small", "odd"], "inner": {"before": ["bad"]}})
    entries = exception_handler(error, {}).data["errors"]
    assert [(entry["attr"], entry["detail"]) for entry in entries] == [
        ("last", "too small"), ("last", "odd"), ("before", "bad"),
    ]  # fmt: skip


def test_one_who_is_throttled_is_told_when_to_come_back():
    assert exception_handler(exceptions.Throttled(wait=7), {})["Retry-After"] == "7"


def test_an_error_that_nobody_foresaw_is_not_hidden():
    assert exception_handler(RuntimeError("bug"), {}) is None


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/nothing", "/runs/", "/runs/a/steps/", "/", "/workers/", "/failures/7"])
def test_a_path_that_is_no_endpoint_is_told_in_json_without_redirect(client, writer, token, path):
    response = client.get(BASE + path, headers={"Authorization": f"Token {token}"})
    assert response.status_code == 404
    assert response.headers["Content-Type"] == "application/json"
    assert json.loads(response.content)["errors"][0]["code"] == "not_found"


@pytest.mark.django_db
def test_another_format_than_json_is_refused(client, writer, token):
    headers = {"Authorization": f"Token {token}", "Accept": "application/xml"}
    response = client.get(f"{BASE}/runs", headers=headers)
    assert (response.status_code, json.loads(response.content)["errors"][0]["code"]) == (406, "not_acceptable")
