"""The endpoint of the verdict on a run: parse, call, render."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from telemetry_app.api.filters import NoFilters
from telemetry_app.api.run_paths import part_of
from telemetry_app.api.views import RunViewSet
from telemetry_app.inspection.verdict import run_verdict


class RunVerdictViewSet(RunViewSet):
    """The verdict on one run."""

    @part_of("run")
    def verdict(self, request: Request, run: str) -> Response:
        """Answer what the run is doing or waiting for, since when, and how one knows."""
        NoFilters.read(request.query_params)
        return Response(run_verdict(run, now=timezone.now().timestamp()))
