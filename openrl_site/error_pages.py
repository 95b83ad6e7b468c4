"""The page that stands in place of one that could not be made: what is out where that is known, else that it failed."""

from __future__ import annotations

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template import loader

RETRY_SECONDS = 10  # after so long the page of an outage asks again


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer 503 where PostgreSQL can't be asked, which may end by itself, and 500 for any other fault."""
    error = sys.exc_info()[1]
    if isinstance(error, (OperationalError, InterfaceError)):
        page = loader.render_to_string("503.html", {"retry_seconds": RETRY_SECONDS})
        return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_SECONDS)})
    return HttpResponse(loader.render_to_string("500.html"), status=500)
