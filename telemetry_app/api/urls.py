"""Paths of the API. Sub-resources come before the detail route: servers decode `%2F`, so a run id may hold slashes.

What follows `…/runs/` is a run id unless its last part names a sub-resource (see `run_paths.py`). No trailing slash,
and no redirects.
"""

from __future__ import annotations

from typing import Any

from django.urls import path

from telemetry_app.api import endpoint_descriptions  # noqa: F401  # attaches the schema's descriptions to the views
from telemetry_app.api.devices import DeviceViewSet
from telemetry_app.api.docs import SchemaView, docs_page
from telemetry_app.api.events import all_events, run_events
from telemetry_app.api.fleet import FleetView
from telemetry_app.api.incidents import IncidentViewSet, RunIncidentsViewSet
from telemetry_app.api.metrics import RunMetricsViewSet
from telemetry_app.api.renderers import CompactJSONRenderer, CsvRenderer
from telemetry_app.api.requests import RequestViewSet, RunRequestsViewSet
from telemetry_app.api.retention import RetentionView
from telemetry_app.api.samples import RunSamplesViewSet
from telemetry_app.api.time import RunTimeViewSet
from telemetry_app.api.turns import RunTurnsViewSet, TurnViewSet
from telemetry_app.api.verdict import RunVerdictViewSet
from telemetry_app.api.views import FailureViewSet, NoEndpointView, RunViewSet, WorkerViewSet

Actions = dict[str, Any]
_LIST: Actions = {"get": "list"}
_DETAIL: Actions = {"get": "retrieve"}
TABLE: Actions = {"renderer_classes": (CompactJSONRenderer, CsvRenderer)}  # what may be asked for as CSV too

urlpatterns = [
    path("runs", RunViewSet.as_view(_LIST), name="run-list"),
    path("runs/<path:run>/steps", RunViewSet.as_view({"get": "steps"}, **TABLE), name="run-steps"),
    path("runs/<path:run>/operations", RunViewSet.as_view({"get": "operations"}, **TABLE), name="run-operations"),
    path("runs/<path:run>/failures", RunViewSet.as_view({"get": "failures"}, **TABLE), name="run-failures"),
    path("runs/<path:run>/requests", RunRequestsViewSet.as_view({"get": "requests"}), name="run-requests"),
    path("runs/<path:run>/turns", RunTurnsViewSet.as_view({"get": "turns"}), name="run-turns"),
    path("runs/<path:run>/time", RunTimeViewSet.as_view({"get": "time"}), name="run-time"),
    path("runs/<path:run>/samples", RunSamplesViewSet.as_view({"get": "samples"}), name="run-samples"),
    path("runs/<path:run>/verdict", RunVerdictViewSet.as_view({"get": "verdict"}), name="run-verdict"),
    path("runs/<path:run>/incidents", RunIncidentsViewSet.as_view({"get": "incidents"}), name="run-incidents"),
    path("runs/<path:run>/events", run_events, name="run-events"),
    path("runs/<path:run>/metrics", RunMetricsViewSet.as_view({"get": "metrics"}, **TABLE), name="run-metrics"),
    path("runs/<path:run>", RunViewSet.as_view(_DETAIL), name="run-detail"),
    path("events", all_events, name="events"),
    path("failures", FailureViewSet.as_view(_LIST, **TABLE), name="failure-list"),
    path("incidents", IncidentViewSet.as_view(_LIST), name="incident-list"),
    path("requests", RequestViewSet.as_view(_LIST), name="request-list"),
    path("turns", TurnViewSet.as_view(_LIST, **TABLE), name="turn-list"),
    path("workers", WorkerViewSet.as_view(_LIST), name="worker-list"),
    path("workers/<path:worker>/events", WorkerViewSet.as_view({"get": "events"}), name="worker-events"),
    path("workers/<path:worker>", WorkerViewSet.as_view(_DETAIL), name="worker-detail"),
    path("devices", DeviceViewSet.as_view(_LIST), name="device-list"),
    path("devices/<path:device>/time", DeviceViewSet.as_view({"get": "time"}, **TABLE), name="device-time"),
    path("fleet", FleetView.as_view(), name="fleet"),
    path("retention", RetentionView.as_view(), name="retention"),
    path("api/schema", SchemaView.as_view(), name="api-schema"),
    path("api/docs", docs_page, name="api-docs"),
    path("", NoEndpointView.as_view()),
    path("<path:unknown>", NoEndpointView.as_view()),  # last: a JSON answer, not the site's page
]
