"""The endpoint of the fleet: parse, call, render."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from telemetry_app.api.filters import NoFilters
from telemetry_app.inspection.fleet import fleet


class FleetView(APIView):
    """The fleet on one page."""

    def get(self, request: Request) -> Response:
        """Answer counts of runs, workers, stuck requests and failures, the GPU's hour, and what the site can see."""
        NoFilters.read(request.query_params)
        return Response(fleet(now=timezone.now().timestamp()))
