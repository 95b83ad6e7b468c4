"""What a message says, as data: the incidents with their evidence, the verdict on the run, and links.

Written once, before the first attempt, and kept: each attempt says the same. It is the body of a signed webhook.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.admin.utils import quote
from django.urls import reverse

from telemetry_app.exceptions import TelemetryError
from telemetry_app.inspection.verdict import run_verdict
from telemetry_app.instants import rfc3339
from telemetry_app.models import AlertDelivery, AlertEdge, AlertNotice, Incident, Run
from telemetry_app.plain_words import in_words

VERSION = 1
SHOWN_INCIDENTS = 20  # of a digest; the others are counted

logger = logging.getLogger(__name__)


def content_of(delivery: AlertDelivery, *, now: datetime) -> dict[str, Any]:
    """Return what a delivery says. Of many incidents, the first are shown and the others counted."""
    notices = list(
        AlertNotice.objects.filter(delivery=delivery).select_related("rule").order_by("id")[:SHOWN_INCIDENTS]
    )
    incidents = Incident.objects.in_bulk([notice.incident_id for notice in notices])
    told = [(notice, incidents[notice.incident_id]) for notice in notices if notice.incident_id in incidents]
    runs = Run.objects.in_bulk({incident.run_id for _, incident in told})
    shown = [_incident(notice, incident, runs.get(incident.run_id), now) for notice, incident in told]
    content = _frame(delivery, delivery.created_at, count=delivery.incidents_count)
    content |= {"incidents": shown, "more_count": delivery.incidents_count - len(shown)}
    if delivery.incidents_count == 1 and shown:
        content |= {"link": shown[0]["link"], "verdict": _verdict(shown[0]["run_id"], now)}
    return content


def test_content(delivery: AlertDelivery, *, now: datetime) -> dict[str, Any]:
    """Return what a test says: no incident, and a link to the site."""
    return _frame(delivery, now, count=0) | {"incidents": [], "more_count": 0}


def title_of(edge: AlertEdge, incidents: Sequence[tuple[Incident, Run | None]]) -> str:
    """Return what a message is about in a few words."""
    if len(incidents) > 1:
        verb = "began" if edge == AlertEdge.START else "ended"
        return f"{len(incidents)} incidents {verb}"
    [(incident, run)] = incidents
    code = in_words(incident.code)
    name = run.name if run is not None and run.name else incident.run_id
    return f"{code}: {name}" if edge == AlertEdge.START else f"ended: {code}: {name}"


def link_to(address: str) -> str:
    """Return the whole URL of a path of the site; empty where nobody told the site its own URL."""
    base = settings.TELEMETRY_SITE_URL.rstrip("/")
    return f"{base}{address}" if base else ""


# --- Parts ----------------------------------------------------------------------------------------------------
def _frame(delivery: AlertDelivery, at: datetime, *, count: int) -> dict[str, Any]:
    return {
        "version": VERSION,
        "event": f"incident.{delivery.edge}" if delivery.edge != AlertEdge.TEST else "test",
        "title": delivery.title,
        "channel": delivery.channel.name,
        "created_at": rfc3339(at),
        "link": link_to(reverse("admin:telemetry_app_incident_changelist")),
        "incidents_count": count,
        "verdict": None,
    }


def _incident(notice: AlertNotice, incident: Incident, run: Run | None, now: datetime) -> dict[str, Any]:
    end = incident.ended_at or max(now, incident.last_held_at)
    page = reverse("admin:telemetry_app_incident_change", args=[incident.pk])
    run_page = reverse("admin:telemetry_app_run_change", args=[quote(incident.run_id)])
    return {
        "id": incident.pk,
        "run_id": incident.run_id,
        "run_name": "" if run is None else run.name,
        "code": incident.code,
        "rule": None if notice.rule is None else notice.rule.name,
        "started_at": rfc3339(incident.started_at),
        "ended_at": rfc3339(incident.ended_at),
        "for_seconds": max(0.0, (end - incident.started_at).total_seconds()),
        "reopened_count": incident.reopened_count,
        "cause": incident.cause,
        "evidence": incident.evidence,
        "link": link_to(page),
        "run_link": link_to(run_page),
    }


def _verdict(run_id: str, now: datetime) -> dict[str, Any]:
    """Return the verdict on the run as it is now; what can't be told is said, and stops no message."""
    try:
        found = run_verdict(run_id, now=now.timestamp())
    except TelemetryError as error:
        return {"unknown": str(error)}
    except Exception:
        logger.exception("the verdict on %r for an alert failed", run_id)
        return {"unknown": "The verdict failed; the site's log says why."}
    names = ("as_of", "state", "since", "for_seconds", "evidence", "counter_evidence", "findings", "next")
    return {name: found[name] for name in names}
