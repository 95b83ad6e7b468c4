"""The site's paths, and an empty view."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView


class EmptyView(APIView):
    """Answers nothing, signed in as all are."""

    def get(self, request: Request) -> Response:
        """Answer an empty object."""
        return Response({})


urlpatterns = [path("benchmark/empty", EmptyView.as_view()), path("", include("openrl_site.urls"))]
