"""The endpoint of retention: parse, call, render."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from telemetry_app.api.filters import NoFilters
from telemetry_app.inspection.retention import retention_answer
from telemetry_app.instants import rfc3339


class RetentionView(APIView):
    """The policies, in the order in which they are applied."""

    def get(self, request: Request) -> Response:
        """Answer how long each kind is kept, and what went last."""
        NoFilters.read(request.query_params)
        now = timezone.now()
        results = retention_answer(now=now)
        return Response({"count": len(results), "as_of": rfc3339(now), "results": results})
