"""Which notices go out together: one message each, or one that lists them where many come at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.db.models import Sum

from telemetry_app.alerts.content import title_of
from telemetry_app.alerts.outcomes import one_line
from telemetry_app.models import TEXT_LENGTH, AlertChannel, AlertDelivery, AlertEdge, AlertNotice, Run

DIGEST_SECONDS = 60.0  # in so long a channel gets single messages up to its limit, or one digest


def deliver(
    edge: AlertEdge, found: Mapping[AlertChannel, list[AlertNotice]], runs: Mapping[str, Run], at: datetime
) -> list[AlertNotice]:
    """Queue messages for the notices of each channel; return the notices that are on their way.

    Those that have to wait for their minute are left out: the next look finds them again.
    """
    if not found:
        return []
    recent = _recent_counts(edge, found, at)
    bundles = [
        (channel, bundle)
        for channel, notices in found.items()
        for bundle in bundles_of(notices, recent.get(channel.pk, 0), channel.digest_over)
    ]
    deliveries = AlertDelivery.objects.bulk_create(_delivery(edge, *bundle, runs, at) for bundle in bundles)
    delivered = []
    for delivery, (_, bundle) in zip(deliveries, bundles, strict=True):
        for notice in bundle:
            notice.delivery = delivery
            delivered.append(notice)
    was_muted = [notice for notice in delivered if notice.pk is not None]
    AlertNotice.objects.bulk_create([notice for notice in delivered if notice.pk is None])
    AlertNotice.objects.bulk_update(was_muted, ("delivery", "rule", "mute", "noticed_at"), batch_size=500)
    return delivered


def bundles_of(notices: Sequence[AlertNotice], recent_count: int, digest_over: int) -> list[list[AlertNotice]]:
    """Return the notices that go out now, by message: each alone, all in one, or none, where others just went out.

    `recent_count`: incidents that the channel was told of within the last minute.
    """
    if len(notices) + recent_count <= digest_over:
        return [[notice] for notice in notices]
    return [] if recent_count else [list(notices)]


def _recent_counts(edge: AlertEdge, found: Mapping[AlertChannel, object], at: datetime) -> dict[int, int]:
    recent = AlertDelivery.objects.filter(
        channel__in=list(found), edge=edge, created_at__gt=at - timedelta(seconds=DIGEST_SECONDS), created_at__lte=at
    )  # none of the future: a clock that was set back would hold up all
    return dict(recent.order_by().values_list("channel_id").annotate(count=Sum("incidents_count")))


def _delivery(
    edge: AlertEdge, channel: AlertChannel, bundle: Sequence[AlertNotice], runs: Mapping[str, Run], at: datetime
) -> AlertDelivery:
    told = [(notice.incident, runs.get(notice.incident.run_id)) for notice in bundle]
    return AlertDelivery(
        channel=channel,
        edge=edge,
        title=one_line(title_of(edge, told), TEXT_LENGTH),
        created_at=at,
        due_at=at,
        incidents_count=len(bundle),
    )
