"""The page that stands in place of one that could not be made: what is out where that is known, else that it failed."""

from __future__ import annotations

import sys

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template import loader
from django.urls import reverse

from telemetry_app.exceptions import HistoryUnavailableError
from telemetry_app.history_faults import LOCKED, SLOW, fault_sentence

RETRY_SECONDS = 10  # after so long the page of an outage asks again


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer 503 where PostgreSQL is out, locked or too slow, which may end by itself, and 500 for any other fault."""
    error = sys.exc_info()[1]
    if isinstance(error, (OperationalError, InterfaceError, HistoryUnavailableError)):
        fault = fault_sentence(error)
        context = {
            "retry_seconds": RETRY_SECONDS,
            "is_locked": fault == LOCKED,
            "limit_seconds": settings.STATEMENT_TIMEOUT_MILLISECONDS / 1e3 if fault == SLOW else None,
            "is_sign_in": request.path == reverse("admin:login"),
        }
        page = loader.render_to_string("503.html", context)
        return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_SECONDS)})
    return HttpResponse(loader.render_to_string("500.html"), status=500)
