"""The page that stands in place of one that could not be made: what is out where that is known, else that it failed."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template import loader
from psycopg.errors import QueryCanceled

from telemetry_app.exceptions import HistoryUnavailableError

RETRY_SECONDS = 10  # after so long the page of an outage asks again


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer 503 where PostgreSQL is out or takes too long, which may end by itself, and 500 for any other fault."""
    error = sys.exc_info()[1]
    if isinstance(error, (OperationalError, InterfaceError, HistoryUnavailableError)):
        is_slow = any(isinstance(cause, QueryCanceled) for cause in _causes(error))
        limit = settings.STATEMENT_TIMEOUT_MILLISECONDS / 1e3 if is_slow else None
        page = loader.render_to_string("503.html", {"retry_seconds": RETRY_SECONDS, "limit_seconds": limit})
        return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_SECONDS)})
    return HttpResponse(loader.render_to_string("500.html"), status=500)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__
    while cause is not None:
        yield cause
        cause = cause.__cause__
