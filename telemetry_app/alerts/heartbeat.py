"""A ping to an external service while the site is well: its silence is noticed by others, who then tell people."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.utils import timezone

from telemetry_app import readiness
from telemetry_app.alerts import http
from telemetry_app.alerts.outcomes import Outcome, one_line
from telemetry_app.alerts.webhook import AGENT
from telemetry_app.models import TEXT_LENGTH, HeartbeatPing

NOT_SET = "No pings: TELEMETRY_HEARTBEAT_URL is not set."


def ping(*, now: datetime | None = None) -> HeartbeatPing:
    """Ask the service's URL if all that the site depends on is well, and keep what came of it.

    Where PostgreSQL is out, this fails before it pings: so it is silent too.
    """
    at = now or timezone.now()
    newest = HeartbeatPing.objects.filter(pk=1).first() or HeartbeatPing(pk=1)
    if not settings.TELEMETRY_HEARTBEAT_URL:
        newest.detail = NOT_SET
        return newest
    newest.looked_at = at
    wrong = [f"{check.name}: {check.detail}" for check in readiness.check_all(now=at) if not check.is_ok]
    if wrong:
        newest.is_well, newest.detail = (
            False,
            one_line(f"Withheld, the site is not well: {'; '.join(wrong)}", TEXT_LENGTH),
        )
    else:
        answer = http.request("GET", settings.TELEMETRY_HEARTBEAT_URL, headers={"User-Agent": AGENT})
        newest.pinged_at = at
        newest.is_well, newest.detail = answer.outcome is Outcome.DELIVERED, answer.text
        if newest.is_well:
            newest.taken_at = at
    newest.save()
    return newest
