"""The page of one incident: what was seen, by which records, what the run does now, and what else went wrong."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.admin.utils import quote
from django.db.models import Q
from django.http import Http404
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from telemetry_app.admin.run_names import run_names
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError, NotFoundError
from telemetry_app.inspection.incidents import incident_fields
from telemetry_app.inspection.verdict import run_verdict
from telemetry_app.instants import rfc3339
from telemetry_app.models import Incident, Operation, VerdictPass
from telemetry_app.templatetags.telemetry import words

SHOWN_RECORDS = 50
SHOWN_OTHERS = 10
AROUND = timedelta(minutes=1)  # so much before and after it is shown on pages that it leads to
OTHERS_SPAN = timedelta(days=1)  # others that began longer before it are not looked for


def incident_page(key: str) -> dict[str, Any]:
    """Return what the page of one incident shows.

    Raises:
        Http404: there is no such incident.
    """
    row = Incident.objects.filter(pk=int(key)).first() if key.isdecimal() and len(key) < 19 else None
    if row is None:
        raise Http404(f"There is no incident {key[:40]!r}.")
    last_pass_at = VerdictPass.objects.values_list("ended_at", flat=True).first()
    incident = incident_fields(row, last_pass_at)
    others = [incident_fields(other, last_pass_at) for other in _others(row)]
    run_ids = {row.run_id, *(other["run_id"] for other in others)}
    return {
        "title": f"Incident: {words(row.code)}",
        "incident": incident,
        "records": _records(row),
        "verdict": None if row.ended_at else _verdict(row.run_id),
        "others": others,
        "names": run_names(run_ids),
        "last_pass_at": last_pass_at,
        **_links(row),
    }


def _records(incident: Incident) -> list[dict[str, Any]]:
    """Return the ops that the evidence names, as far as history has them."""
    named = _texts(incident, "record_ids")
    rows = Operation.objects.of_run(incident.run_id).filter(
        record_id__in=named[:SHOWN_RECORDS], at__gte=incident.started_at - OTHERS_SPAN,
        at__lte=incident.last_held_at + OTHERS_SPAN,
    )  # fmt: skip
    columns = ("record_id", "operation", "status", "error_type", "step", "at", "request_id", "worker")
    found = {row["record_id"]: row for row in rows.order_by("at", "id").values(*columns)}
    return [found.get(record_id, {"record_id": record_id}) for record_id in named[:SHOWN_RECORDS]]


def _texts(incident: Incident, field: str) -> list[str]:
    facts = incident.evidence if isinstance(incident.evidence, list) else []
    return list(dict.fromkeys(text for fact in facts for text in fact.get(field) or ()))


def _verdict(run_id: str) -> dict[str, Any] | None:
    """Return the verdict on the run now; None where it can't be told."""
    try:
        return run_verdict(run_id, now=timezone.now().timestamp())
    except (LiveDataUnavailableError, HistoryUnavailableError, NotFoundError):
        return None


def _others(incident: Incident) -> Iterable[Incident]:
    """Return the newest other incidents that held at the same time, of all runs."""
    end = incident.ended_at or timezone.now()
    rows = Incident.objects.filter(started_at__lt=end, started_at__gte=incident.started_at - OTHERS_SPAN)
    held = rows.filter(Q(ended_at=None) | Q(ended_at__gt=incident.started_at)).exclude(pk=incident.pk)
    return held.order_by("-started_at", "-id")[:SHOWN_OTHERS]


def _links(incident: Incident) -> dict[str, str]:
    """Return where the same time is shown."""
    since, until = incident.started_at - AROUND, (incident.ended_at or timezone.now()) + AROUND
    span = urlencode({"since": _text(since), **({"until": _text(until)} if incident.ended_at else {})})
    plotted = urlencode({"since": _text(since), "until": _text(until)})
    run = reverse("admin:telemetry_app_run_change", args=[quote(incident.run_id)])
    return {
        "run_url": run,
        "run_then_url": f"{run}?{plotted}",
        "gpus_url": f"{reverse('admin:telemetry_gpus')}?{span}",
        "failures_url": f"{reverse('admin:telemetry_failures')}?{urlencode({'run': incident.run_id, 'hours': '0'})}",
    }


def _text(instant: datetime) -> str:
    return str(rfc3339(instant))
