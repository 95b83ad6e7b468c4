"""Fixtures of the API's tests: a signed-in caller whose answers are parsed strictly."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from telemetry_app.groups import VIEWER
from telemetry_app.models import ApiToken

BASE = "/api/v1/inspect"


@dataclass(frozen=True)
class Caller:
    """Calls the API with one token."""

    client: Client
    token: str

    def answer(self, path: str, expected_status: int = 200, **parameters: Any) -> dict[str, Any]:
        """Return the JSON of an answer, which must have the status and no NaN or Infinity in it."""
        response = self.client.get(BASE + path, parameters, headers={"Authorization": f"Token {self.token}"})
        assert response.status_code == expected_status, response.content
        assert response.headers["Content-Type"] == "application/json"
        return json.loads(response.content, parse_constant=_refuse)

    def results(self, path: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return the results of a list's first page."""
        return self.answer(path, **parameters)["results"]

    def walk(self, path: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return the results of all pages of a list, of which there may be 200."""
        results, cursor = [], {}
        for _ in range(200):
            answer = self.answer(path, **parameters, **cursor)
            assert answer["count"] == len(answer["results"])
            results += answer["results"]
            if answer["next"] is None:
                return results
            cursor = {"cursor": answer["next"]}
        raise AssertionError("the pages never end")

    def refusal(self, path: str, **parameters: Any) -> dict[str, Any]:
        """Return the one entry of a 400."""
        answer = self.answer(path, 400, **parameters)
        assert answer["type"] == "validation_error"
        [entry] = answer["errors"]
        assert set(entry) == {"code", "detail", "attr"}
        return entry


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def run_path(run_id: str, part: str = "") -> str:
    """Return the path of a run or of a part of it."""
    return f"/runs/{quote(run_id, safe='')}{part}"


@pytest.fixture(autouse=True)
def _without_static_files(settings) -> None:
    """Spare each test's first request the search for static files, of which the API has none."""
    settings.WHITENOISE_USE_FINDERS = False


@pytest.fixture
def token(django_user_model) -> str:
    """The token of a user of the group `viewer`, whose use was written down just now."""
    reader = django_user_model.objects.create_user("reader")
    reader.groups.add(Group.objects.get(name=VIEWER))
    return ApiToken.objects.issue(user=reader, name="of the tests", last_used_at=timezone.now())[1]


@pytest.fixture
def api(client: Client, token: str) -> Caller:
    """A caller with a token."""
    return Caller(client, token)


@pytest.fixture
def now() -> float:
    """The time by the clock, which the API reads too; in the microseconds that history keeps."""
    return round(time.time(), 6)


@pytest.fixture
def postgres_out(monkeypatch) -> Callable[[], None]:
    """A function after whose call every query of the telemetry tables (sign-in aside) fails, as with PostgreSQL out."""
    from django.db import OperationalError, connection  # as the driver raises it
    from django.db.models.sql.compiler import SQLCompiler

    original = SQLCompiler.execute_sql

    def execute_sql(self: SQLCompiler, *arguments: Any, **fields: Any) -> Any:
        if self.query.model._meta.app_label == "telemetry_app" and self.query.model is not ApiToken:
            raise OperationalError("connection refused")
        return original(self, *arguments, **fields)

    def refuse(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        if "FROM telemetry_app_" in sql:  # a statement written by hand, which no compiler made
            raise OperationalError("connection refused")
        return execute(sql, *arguments)

    def put_out() -> None:
        monkeypatch.setattr(SQLCompiler, "execute_sql", execute_sql)
        monkeypatch.setattr(connection, "execute_wrappers", [refuse])

    return put_out
