"""How endpoints become OpenAPI: declared parameters, the answer's serializer, a real example, and the common errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.serializers import Serializer

from telemetry_app.api.filters import Filters
from telemetry_app.api.serializers import ErrorAnswer

EXAMPLES = Path(__file__).parent / "examples"
BASE = "/api/v1/inspect"
_IDS = {
    "run": "The run id, percent-encoded; a plain `/` in it works too.",
    "worker": "The worker id, percent-encoded.",
    "device": "The device: a node's name, or `unnamed` for turns that name none.",
}
_ERRORS = {
    "400": ("BadRequest", "A parameter is unknown or breaks a rule."),
    "401": ("NotAuthenticated", "There is no sign-in, or the token is wrong."),
    "403": ("PermissionDenied", "The user may not read telemetry."),
    "404": ("NotFound", "There is no such run, or no such worker."),
    "406": ("NotAcceptable", "`Accept` allows nothing that this endpoint answers."),
    "429": ("TooManyRequests", "The token asked too often; `Retry-After` says when to go on, in seconds."),
    "503": ("SourcesUnavailable", "Neither Redis nor PostgreSQL can say anything."),
}


def describe(view: type, **methods: Callable[[Any], Any]) -> None:
    """Attach descriptions to a view's methods, which stay where they are and clean of them."""
    for name, description in methods.items():
        description(vars(view)[name])


def described(
    answer: type[Serializer],
    *,
    summary: str,
    description: str,
    example: str,
    filters: type[Filters] | None = None,
    ids: tuple[str, ...] = (),
    has_csv: bool = False,
) -> Callable[[Any], Any]:
    """Return what describes one endpoint. `example` names a file of `examples/`, a real answer that is shortened."""
    shown = OpenApiExample("from the reference fleet", value=real_example(example), response_only=True)
    responses: dict[Any, Any] = {
        (200, "application/json"): OpenApiResponse(answer, description=summary, examples=[shown]),
        (400, "application/json"): ErrorAnswer,
    }
    if has_csv:
        table = "The same as CSV: all that matches, without pages. Texts that a spreadsheet would run begin with `'`."
        responses[200, "text/csv"] = OpenApiResponse(OpenApiTypes.STR, description=table)
    return extend_schema(
        operation_id=example,
        summary=summary,
        description=description,
        parameters=[*_path_parameters(ids), *_query_parameters(filters)],
        responses=responses,
        tags=[example.split("_", 1)[0]],
    )


def real_example(name: str) -> Any:
    """Return the content of one example file."""
    return json.loads((EXAMPLES / f"{name}.json").read_text(encoding="utf-8"))


def _path_parameters(ids: tuple[str, ...]) -> Iterator[OpenApiParameter]:
    for name in ids:
        yield OpenApiParameter(name, OpenApiTypes.STR, OpenApiParameter.PATH, description=_IDS[name])


def _query_parameters(filters: type[Filters] | None) -> Iterator[OpenApiParameter]:
    for name, declared in filters.base_filters.items() if filters else ():
        meaning = declared.extra.get("help_text", "")
        yield OpenApiParameter(name, declared.schema(), OpenApiParameter.QUERY, description=meaning)


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How a program signs in."""

    target_class = "telemetry_app.api.authentication.BearerOrTokenAuthentication"
    match_subclasses = True
    priority = 1
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """Return the scheme: a header with a word before the token."""
        meaning = "`Authorization: Token <token>`; `Bearer` in place of `Token` works too."
        return {"type": "http", "scheme": "bearer", "description": meaning}


# --- Hooks of the generator -----------------------------------------------------------------------------------
def only_the_api(endpoints: list[Any], **kwargs: Any) -> list[Any]:
    """Leave out what is no endpoint: the answer to unknown paths."""
    return [each for each in endpoints if not each[0].endswith("{unknown}") and each[0].rstrip("/") != BASE]


def with_common_parts(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Give each endpoint the errors that all have, by reference, and add those that are no REST framework views."""
    for path, methods in result["paths"].items():
        for operation in methods.values():
            for status, (name, _) in _ERRORS.items():
                if status != "404" or "{" in path:
                    operation["responses"][status] = {"$ref": f"#/components/responses/{name}"}
    result["components"]["responses"] = {name: _error(status, text) for status, (name, text) in _ERRORS.items()}
    result["paths"] |= plain_endpoints()
    result["paths"] = dict(sorted(result["paths"].items()))
    return result


def _error(status: str, meaning: str) -> dict[str, Any]:
    content = {
        "schema": {"$ref": "#/components/schemas/ErrorAnswer"},
        "examples": {"real": {"value": real_example("errors")[status]}},
    }
    return {"description": meaning, "content": {"application/json": content}}


@cache
def plain_endpoints() -> dict[str, Any]:
    """Return the paths that are no views of the REST framework."""
    return {f"{BASE}/{name}": {"get": operation} for name, operation in real_example("plain_endpoints").items()}
