"""Liveness: the web process answers. It asks no other server, so that an outage elsewhere restarts nothing here."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse


def healthz(request: HttpRequest) -> JsonResponse:
    """Answer that the process is alive."""
    return JsonResponse({"status": "ok"})
