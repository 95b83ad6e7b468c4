"""What comes before and after every view: requests of no sensible size are refused, and the API's errors are JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

API = "/api/"
PATH_LIMIT = 4_096  # characters, decoded; a run's id has 256 at most
QUERY_LIMIT_BYTES = 16_384  # a cursor of the longest ids has 8,000
PARAMETERS_LIMIT = 100
HEADERS_LIMIT_BYTES = 32_768

_DETAILS = {
    400: ("bad_request", "The request can't be understood."),
    403: ("permission_denied", "This is not allowed."),
    404: ("not_found", "There is nothing at this path."),
}
_FAULT = ("error", "Something went wrong here. The site's log says what.")
_REFUSED = ("bad_request", "The request is refused.")


def errors_in_json(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Answer errors below `/api/` in the API's shape where Django itself would answer with a page."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        return _in_json(request, get_response(request))

    return middleware


def size_limits(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Refuse requests whose path, query or headers are longer than any that are meant."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        return _refusal(request) or get_response(request)

    return middleware


def sign_in_waits(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Answer a sign-in that came too soon with 429 and `Retry-After`; the page says the same (see `sign_in.py`)."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        wait_seconds: int | None = getattr(request, "sign_in_wait_seconds", None)
        if wait_seconds:
            response.status_code = 429
            response.headers["Retry-After"] = str(wait_seconds)
        return response

    return middleware


def error_body(status: int, code: str, detail: str) -> dict[str, Any]:
    """Return an error in the API's shape."""
    kind = "validation_error" if status == 400 else "client_error"
    kind = "server_error" if status >= 500 else kind
    return {"type": kind, "errors": [{"code": code, "detail": detail, "attr": None}]}


def _refusal(request: HttpRequest) -> HttpResponseBase | None:
    query: str = request.META.get("QUERY_STRING", "")
    if len(request.path) > PATH_LIMIT:
        return _error(414, "too_long", f"The path must have at most {PATH_LIMIT:,} characters.")
    if len(query) > QUERY_LIMIT_BYTES:
        return _error(414, "too_long", f"The query must have at most {QUERY_LIMIT_BYTES:,} bytes.")
    if query.count("&") >= PARAMETERS_LIMIT:
        return _error(400, "too_many", f"The query must have at most {PARAMETERS_LIMIT} parameters.")
    headers = sum(len(name) + len(value) for name, value in request.META.items() if name.startswith("HTTP_"))
    if not request.path.startswith(API) and ("\x00" in request.path or "%00" in query):
        return _error(400, "bad_request", "No path and no parameter may have a NUL.")  # PostgreSQL can't compare one
    if headers > HEADERS_LIMIT_BYTES:
        return _error(431, "too_long", f"The headers must have at most {HEADERS_LIMIT_BYTES:,} bytes.")
    return None


def _error(status: int, code: str, detail: str) -> JsonResponse:
    return JsonResponse(error_body(status, code, detail), status=status)


def _in_json(request: HttpRequest, response: Any) -> HttpResponseBase:
    """Give a page of an error below `/api/` another body, and keep its headers."""
    is_page = response.status_code >= 400 and response.headers.get("Content-Type", "").startswith("text/html")
    if is_page and request.path.startswith(API) and not response.streaming and not settings.DEBUG:
        status = response.status_code
        code, detail = _FAULT if status >= 500 else _DETAILS.get(status, _REFUSED)
        response.content = json.dumps(error_body(status, code, detail)).encode()
        response.headers["Content-Type"] = "application/json"
        if "Content-Length" in response.headers:
            response.headers["Content-Length"] = str(len(response.content))
    return response
