"""The schema and its page, for those who are signed in."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer2, OpenApiYamlRenderer2
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from telemetry_app.api.filters import NoFilters
from telemetry_app.api.renderers import CompactJSONRenderer

# As strict as every page of a site should be; icons of this one are data in its style sheet.
_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'self'; "
    "frame-ancestors 'none'"
)


@cache
def the_schema() -> dict[str, Any]:
    """Return the OpenAPI document: it is the same for all, and takes half a second to make."""
    return SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]


class SchemaView(APIView):
    """The OpenAPI document, as JSON or YAML."""

    renderer_classes = (CompactJSONRenderer, OpenApiJsonRenderer2, OpenApiYamlRenderer2)

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        """Answer the document."""
        NoFilters.read(request.query_params)
        return Response(the_schema())


@login_required
def docs_page(request: HttpRequest) -> HttpResponse:
    """Show the document as a page that asks no other host."""
    response = render(request, "telemetry_app/api_docs.html")
    response.headers["Content-Security-Policy"] = _PAGE_POLICY
    return response
