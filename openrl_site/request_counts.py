"""Middleware that counts the requests the site answers, for `/metrics`."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from telemetry_app.prometheus.served_requests import count_request

STATIC = "static"
NONE = "none"  # of paths that no pattern leads to, and of requests that were refused before one was looked for


def request_counts(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Count each answer with how long it took. Stands first in the list, so that it sees them all."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        response = get_response(request)
        count_request(
            method=request.method or "",
            route=_route(request),
            status=response.status_code,
            seconds=time.perf_counter() - began,
        )
        return response

    return middleware


def _route(request: HttpRequest) -> str:
    if request.resolver_match is not None:
        return f"/{request.resolver_match.route}"
    return STATIC if request.path.startswith(settings.STATIC_URL) else NONE
