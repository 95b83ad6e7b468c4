"""The page of requests that were enqueued and not answered: which are stuck, why, and who holds them."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from telemetry_app.admin.run_names import run_names
from telemetry_app.api.cursors import decode_cursor, encode_cursor
from telemetry_app.api.paging import NUMBER
from telemetry_app.exceptions import HistoryUnavailableError, InvalidQueryError, LiveDataUnavailableError
from telemetry_app.inspection.requests import Position, all_requests

SHOWN_ENTRIES = 200
VIEW_PERMISSION = "telemetry_app.view_run"
_POSITION = (NUMBER, str, str, str)
_CHOICES = (("", "All open", None), ("yes", "Stuck", True), ("no", "Not stuck", False))


def requests_view(request: HttpRequest) -> HttpResponse:
    """Show the open requests, the oldest first; `?stuck=` is `yes`, `no` or nothing, `?cursor=` where a page begins."""
    if not request.user.has_perm(VIEW_PERMISSION):
        raise PermissionDenied
    asked = request.GET.get("stuck", "")
    wanted = {word: is_stuck for word, _, is_stuck in _CHOICES}.get(asked)
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": "Open requests",
        "choices": [{"word": word, "label": label, "is_chosen": word == asked} for word, label, _ in _CHOICES],
    }
    return TemplateResponse(request, "telemetry_app/requests.html", context | _found(request, wanted))


def _found(request: HttpRequest, wanted: bool | None) -> dict[str, Any]:
    now, after = timezone.now(), _after(request)
    try:
        page, coverage = all_requests(stuck=wanted, after=after, size=SHOWN_ENTRIES, now=now.timestamp())
    except (LiveDataUnavailableError, HistoryUnavailableError) as error:
        return {"outage": str(error)}
    return {
        "found": page,
        "as_of": now,
        "coverage": coverage,
        "names": run_names(entry["run_id"] for entry in page.results) if coverage["history"] else {},
        "is_first_page": after is None,
        "next_page": _next_page(request, page.next_position),
    }


def _after(request: HttpRequest) -> Position | None:
    """Return where the page begins; a cursor that is none, or of other filters, is the first page's."""
    try:
        found = decode_cursor(request.GET["cursor"], path=request.path, query=request.GET, types=_POSITION)
    except (KeyError, InvalidQueryError):
        return None
    return cast("Position", tuple(found))


def _next_page(request: HttpRequest, position: Position | None) -> str:
    if position is None:
        return ""
    query = request.GET.copy()
    query["cursor"] = encode_cursor(list(position), path=request.path, query=request.GET)
    return f"?{query.urlencode()}"
