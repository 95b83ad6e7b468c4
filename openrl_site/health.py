"""Liveness and readiness: whether the web process answers, and whether the site does its work."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache

from telemetry_app.readiness import check_all


def healthz(request: HttpRequest) -> JsonResponse:
    """Answer that the process is alive. It asks no other server, so that an outage elsewhere restarts nothing here."""
    return JsonResponse({"status": "ok"})


@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer what the site depends on, by name, with 503 where one of them fails or is too old."""
    checks = check_all()
    is_ready = all(check.is_ok for check in checks)
    answer = {
        "status": "ready" if is_ready else "not_ready",
        "failed": [check.name for check in checks if not check.is_ok],
        "checks": {check.name: check.as_dict() for check in checks},
    }
    return JsonResponse(answer, status=200 if is_ready else 503)
