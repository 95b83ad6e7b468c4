"""The pages of GPUs: what each device did over a stretch of time, by run and by day, and the same as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.http import urlencode

from telemetry_app.admin.device_spans import SPANS, ChosenSpan, chosen_span
from telemetry_app.admin.device_tables import DayRow, DeviceDays, DeviceRuns, by_day, by_run, computing_by_run
from telemetry_app.admin.freshness import history_freshness
from telemetry_app.admin.gpu_bar import GpuPart, bar_parts, shown_runs
from telemetry_app.admin.run_names import run_names
from telemetry_app.api.devices import DAY, RUN, DeviceViewSet
from telemetry_app.api.renderers import CsvRenderer
from telemetry_app.device_share import IDLE, IDLE_WHILE_WAITED, SWITCHING, DeviceRow
from telemetry_app.exceptions import InvalidQueryError, LiveDataUnavailableError
from telemetry_app.inspection.devices import DeviceTimes, device_fields, device_times
from telemetry_app.instants import from_unix, rfc3339
from telemetry_app.models import Turn
from workers_client import wire

DEVICES_ON_A_PAGE = 50
LIVE_SPANS = ("hour", "day")  # a longer time changes too slowly to be told anew every few seconds
VIEW_PERMISSION = "telemetry_app.view_run"


def devices_page(request: HttpRequest) -> HttpResponse:
    """Show all devices that had turns, with a bar for each."""
    _require_permission(request)
    span = chosen_span(request.GET)
    context = _context(request, "GPUs", span)
    found = context.get("found")
    if found is not None:
        context |= _listed(request, found, span)
    return TemplateResponse(request, "telemetry_app/devices.html", context)


def device_page(request: HttpRequest) -> HttpResponse:
    """Show one device, `?device=`; `?by=day` splits its time by day (UTC)."""
    _require_permission(request)
    span = chosen_span(request.GET)
    device = request.GET.get("device", "")[: wire.RUN_ID_LIMIT]
    chosen = DAY if request.GET.get("by") == DAY else RUN
    context = _context(request, f"GPU {device}", span, device=device, by=chosen)
    context |= {
        "device": device, "by": chosen, "list_url": _url("telemetry_gpus", span.query), "back_to": "all GPUs",
        "by_choices": [
            {"label": label, "url": _url("telemetry_gpu", {"device": device, "by": word, **span.query}),
             "is_chosen": word == chosen}
            for word, label in ((RUN, "By run"), (DAY, "By day"))
        ],
    }  # fmt: skip
    found = context.get("found")
    if found is not None and device in found.seen:
        context |= _one(device, found, by=chosen)
    return TemplateResponse(request, "telemetry_app/device.html", context)


def device_table(request: HttpRequest) -> HttpResponseBase:
    """Answer one device's time as CSV, with the parameters of the API and `device`: a link can't ask by a header."""
    _require_permission(request)
    query = request.GET.copy()
    device = query.pop("device", [""])[-1]
    request.GET = query  # type: ignore[assignment]  # a mutable one: all others of it are for the API
    request.META["QUERY_STRING"] = query.urlencode()
    request.META["HTTP_ACCEPT"] = CsvRenderer.media_type
    view = DeviceViewSet.as_view({"get": "time"}, renderer_classes=(CsvRenderer,))
    response: HttpResponseBase = view(request, device=device)
    if response.status_code == 200:
        response.headers["Content-Disposition"] = 'attachment; filename="gpu-time.csv"'
    return response


def device_urls() -> list[URLPattern]:
    """Return the paths of these pages. A device stands in the query: its name may hold anything."""
    view = admin.site.admin_view
    return [
        path("gpus/", view(devices_page), name="telemetry_gpus"),
        path("gpu/", view(device_page), name="telemetry_gpu"),
        path("gpu.csv", view(device_table), name="telemetry_gpu_csv"),
    ]


def _require_permission(request: HttpRequest) -> None:
    if not request.user.has_perm(VIEW_PERMISSION):
        raise PermissionDenied


# --- What both pages show -------------------------------------------------------------------------------------
def _context(request: HttpRequest, title: str, span: ChosenSpan, **kept: str) -> dict[str, Any]:
    """Return what both pages have: the turns of the stretch, or the sentence why there are none, and the choices."""
    page = "telemetry_gpu" if kept else "telemetry_gpus"
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": title,
        "spans": [
            {"label": label, "url": _url(page, {**kept, "span": word}), "is_chosen": word == span.word}
            for word, (label, _) in SPANS.items()
        ],
        "kept": kept,
        "fault": span.fault,
        "has_end": span.until is not None,
        "is_settled": span.until is not None or (span.since is None and span.word not in LIVE_SPANS),
    }
    now = timezone.now().timestamp()
    try:
        found = device_times(span.since, span.until, now=now, span_seconds=span.span_seconds)
    except InvalidQueryError as error:
        return context | {"fault": f"{error} Choose another time."}
    except LiveDataUnavailableError as error:
        return context | {"outage": str(error)}
    is_cut = _begin_with_first_turn(found)
    coverage = found.coverage
    if not coverage["live"]:
        context["last_snapshot_at"] = history_freshness().last_snapshot_at
    return context | {"found": found, "coverage": coverage, "since": from_unix(found.since),
                      "until": from_unix(found.until), "is_begun_later": is_cut}  # fmt: skip


def _begin_with_first_turn(found: DeviceTimes) -> bool:
    """Begin the stretch with the first of all turns, where it began before: nobody knows what GPUs did until then."""
    first = found.first_instant or found.until
    if first <= found.since or not found.coverage["history"] or first >= found.until:
        return False
    if Turn.objects.filter(at__lte=from_unix(found.since)).exists():
        return False
    found.since = first
    return True


def _url(name: str, query: Mapping[str, str]) -> str:
    return f"{reverse(f'admin:{name}')}?{urlencode(query)}"


def _parts(rows: Iterable[DeviceRow], shown: list[str | None]) -> list[GpuPart]:
    known = list(rows)
    rest = dict.fromkeys((SWITCHING, IDLE_WHILE_WAITED, IDLE), 0.0)
    for row in known:
        if row.activity in rest:
            rest[row.activity] += row.seconds
    return bar_parts(computing_by_run(known), rest, shown, sum(row.seconds for row in known))


# --- The list, and one device -----------------------------------------------------------------------------------
def _listed(request: HttpRequest, found: DeviceTimes, span: ChosenSpan) -> dict[str, Any]:
    rows = {name: found.rows(name) for name in sorted(found.seen)}
    every = [row for own in rows.values() for row in own]
    shown = shown_runs(computing_by_run(every))
    page = Paginator(list(rows), DEVICES_ON_A_PAGE).get_page(request.GET.get("page"))
    devices = [
        {
            "name": name,
            "url": _url("telemetry_gpu", {"device": name, **span.query}),
            "parts": _parts(rows[name], shown),
            "waited_seconds": sum(row.neighbours_waited_seconds for row in rows[name]),
            **device_fields(name, found),
        }
        for name in page
    ]
    pages = {word: _url("telemetry_gpus", {**span.query, "page": str(number)}) for word, number in _neighbours(page)}
    return {"devices": devices, "devices_count": len(rows), "page": page, "pages": pages,
            "total_parts": _parts(every, shown), "names": run_names(shown)}  # fmt: skip


def _neighbours(page: Any) -> list[tuple[str, int]]:
    before = [("before", page.previous_page_number())] if page.has_previous() else []
    return [*before, ("after", page.next_page_number())] if page.has_next() else before


def _one(device: str, found: DeviceTimes, *, by: str) -> dict[str, Any]:
    rows = found.rows(device)
    shown = shown_runs(computing_by_run(rows))
    days: DeviceDays | None = None
    runs: DeviceRuns | None = None
    if by == DAY:
        days = by_day(found.rows(device, by_day=True), lambda own: _parts(own, shown))
    else:
        runs = by_run(rows, shown)
    listed = [row.run_id for row in runs.rows] if runs else []
    return {
        "fields": device_fields(device, found),
        "parts": _parts(rows, shown),
        "waited_seconds": sum(row.neighbours_waited_seconds for row in rows),
        "runs": runs,
        "days": days and {"days_count": days.days_count, "rows": [_day(device, row) for row in days.rows]},
        "names": run_names([*shown, *listed]),
        "csv_url": _url("telemetry_gpu_csv", {"device": device, "by": by, **_instants(found.since, found.until)}),
    }


def _day(device: str, row: DayRow) -> dict[str, Any]:
    return {
        "name": from_unix(row.start).strftime("%a %d %b %Y"),
        "seconds": row.end - row.start,
        "bar": row.bar,
        "parts": row.parts,
        "url": _url("telemetry_gpu", {"device": device, **_instants(row.start, row.end)}),
    }


def _instants(since: float, until: float) -> dict[str, str]:
    return {"since": str(rfc3339(since)), "until": str(rfc3339(until))}
