"""One message through one channel, whatever its kind."""

from __future__ import annotations

import json
from datetime import datetime

from telemetry_app.alerts import email, slack, webhook
from telemetry_app.alerts.outcomes import Answer, Outcome
from telemetry_app.models import AlertChannel
from telemetry_app.models.alerts import LOST


def send(channel: AlertChannel, content: str, *, message_id: str, at: datetime) -> Answer:
    """Send a content (JSON) and return what came of it. It asks no database: it may run in any thread."""
    if channel.is_lost:
        return Answer(Outcome.REFUSED, f"Not sent: the channel's URL or secret is {LOST}. Save it anew.")
    if channel.kind == AlertChannel.Kind.WEBHOOK:
        return webhook.send(channel.url, channel.secret, content.encode(), message_id=message_id, at=at)
    if channel.kind == AlertChannel.Kind.EMAIL:
        return email.send(channel.addresses, json.loads(content), message_id=message_id)
    return slack.send(channel.url, json.loads(content))
