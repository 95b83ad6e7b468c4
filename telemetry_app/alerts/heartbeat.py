"""A ping to an external service while the site is well: its silence is noticed by others, who then tell people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from telemetry_app import readiness
from telemetry_app.alerts import http
from telemetry_app.alerts.outcomes import Outcome, one_line
from telemetry_app.alerts.webhook import AGENT
from telemetry_app.models import TEXT_LENGTH, HeartbeatPing, VerdictPass
from telemetry_app.plain_words import span_words

OLD = timedelta(minutes=3)
LIMIT = timedelta(minutes=2)  # verdicts and alerts come every few seconds: older ones tell nobody of anything
STAMPED_EVERY = timedelta(seconds=30)
NOT_SET = "none is sent: TELEMETRY_HEARTBEAT_URL is not set."


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
    wrong += _late("verdicts", VerdictPass.objects.values_list("ended_at", flat=True).first(), at)
    wrong += _late("alerts", newest.alerts_at, at)
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
    # Without the instant of alerts, which another task writes meanwhile.
    HeartbeatPing.objects.update_or_create(pk=1, defaults={name: getattr(newest, name) for name in _OWN})
    return newest


def note_alerts(now: datetime) -> None:
    """Keep that alerts were noted and sent; asked for after each time, and written twice a minute."""
    if not settings.TELEMETRY_HEARTBEAT_URL:
        return
    older = Q(alerts_at=None) | Q(alerts_at__lt=now - STAMPED_EVERY) | Q(alerts_at__gt=now)
    if not HeartbeatPing.objects.filter(older, pk=1).update(alerts_at=now):
        HeartbeatPing.objects.get_or_create(pk=1, defaults={"alerts_at": now})


def _late(name: str, last_at: datetime | None, at: datetime) -> list[str]:
    """Return what is wrong where something was not done for so long that nobody would be told of trouble."""
    if last_at is None:
        return [f"{name}: there were none yet"]
    age = at - last_at
    return [f"{name}: the newest are {span_words(age.total_seconds())} old"] if age > LIMIT else []


_OWN = ("looked_at", "pinged_at", "taken_at", "is_well", "detail")


@dataclass(frozen=True, slots=True)
class HeartbeatWords:
    """How the heartbeat stands, in words. `taken_at`: when the service took a ping last."""

    text: str
    is_bad: bool = False
    at: datetime | None = None
    taken_at: datetime | None = None


def heartbeat_words(*, now: datetime | None = None) -> HeartbeatWords:
    """Return how the heartbeat stands; one that nobody looked at for long is no good one."""
    if not settings.TELEMETRY_HEARTBEAT_URL:
        return HeartbeatWords(NOT_SET)
    newest = HeartbeatPing.objects.filter(pk=1).first()
    if newest is None or newest.looked_at is None:
        return HeartbeatWords("no ping yet: the first comes within a minute of a Celery worker and beat.", is_bad=True)
    is_old = (now or timezone.now()) - newest.looked_at > OLD
    text = f"taken, {newest.detail}" if newest.is_well else newest.detail
    text = f"nobody looked for long, {text}" if is_old else text
    return HeartbeatWords(text, is_old or not newest.is_well, newest.looked_at, newest.taken_at)
