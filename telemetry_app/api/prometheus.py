"""`/metrics`: what Prometheus scrapes, with the API's sign-in, permission and limits."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from prometheus_client.exposition import choose_encoder
from rest_framework.request import Request
from rest_framework.views import APIView

from telemetry_app.api.conditional import finish
from telemetry_app.api.filters import NoFilters
from telemetry_app.prometheus.scrape import Scrape


class MetricsView(APIView):
    """All metrics, as text of Prometheus or OpenMetrics; errors are the API's JSON."""

    schema = None

    def get(self, request: Request) -> HttpResponse:
        """Answer the metrics in the format that the caller takes."""
        NoFilters.read(request.query_params)
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        response = HttpResponse(content_type=content_type)
        response.content = finish(encode(Scrape()), None, request, response)
        return response

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[Any, str]:
        """Refuse nobody for what it accepts: the library knows the formats, and has one for everybody."""
        return super().perform_content_negotiation(request, force=True)
