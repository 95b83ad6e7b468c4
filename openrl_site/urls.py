"""Where each path leads."""

from __future__ import annotations

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from openrl_site.agent_endpoint import mcp
from openrl_site.health import healthz, readyz
from telemetry_app.api.prometheus import MetricsView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("favicon.ico", RedirectView.as_view(url=static("telemetry_app/icon.svg"))),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("api/v1/inspect/healthz", healthz),
    path("api/v1/inspect/readyz", readyz),
    path("api/v1/inspect/", include("telemetry_app.api.urls")),
    path("mcp", mcp, name="mcp"),
    path("metrics", MetricsView.as_view(), name="metrics"),
    path("admin/", admin.site.urls),
]

handler500 = "openrl_site.error_pages.server_error"
