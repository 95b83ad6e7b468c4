"""One shape for every error: `{"type", "errors": [{"code", "detail", "attr"}]}`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import set_rollback

from telemetry_app.exceptions import (
    HistoryUnavailableError,
    InvalidQueryError,
    LiveDataUnavailableError,
    NotFoundError,
)
from telemetry_app.history_faults import fault_sentence


def exception_handler(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Return the answer to an error, or None of one that nobody foresaw."""
    set_rollback()
    known = _as_api_exception(error)
    if known is None:
        return None
    kind = "validation_error" if known.status_code == status.HTTP_400_BAD_REQUEST else "client_error"
    kind = "server_error" if known.status_code >= 500 else kind
    response = Response({"type": kind, "errors": list(_entries(known.detail, None))}, status=known.status_code)
    if header := getattr(known, "auth_header", None):
        response["WWW-Authenticate"] = header
    if wait := getattr(known, "wait", None):
        response["Retry-After"] = str(int(wait))
    return response


class SourcesUnavailable(exceptions.APIException):
    """Neither source can say anything."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_code = "sources_unavailable"


def _as_api_exception(error: Exception) -> exceptions.APIException | None:
    if isinstance(error, exceptions.APIException):
        return error
    if isinstance(error, InvalidQueryError):
        return exceptions.ValidationError({error.parameter: [str(error)]}, code="invalid")
    if isinstance(error, NotFoundError):
        return exceptions.NotFound(str(error))
    if isinstance(error, Http404):
        return exceptions.NotFound()
    if isinstance(error, PermissionDenied):
        return exceptions.PermissionDenied()
    if isinstance(error, (LiveDataUnavailableError, HistoryUnavailableError)):
        return SourcesUnavailable(str(error))
    if isinstance(error, (OperationalError, InterfaceError)):  # sign-in asks PostgreSQL too
        return SourcesUnavailable(fault_sentence(error))
    return None


def _entries(detail: Any, attribute: str | None) -> Iterator[dict[str, str | None]]:
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            yield from _entries(inner, str(name))
    elif isinstance(detail, (list, tuple)):
        for inner in detail:
            yield from _entries(inner, attribute)
    else:
        yield {"code": getattr(detail, "code", "error"), "detail": str(detail), "attr": attribute}
