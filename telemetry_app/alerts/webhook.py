"""Signed webhooks, as the Standard Webhooks specification wants them: its libraries check the signature."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import datetime

from telemetry_app.alerts import http
from telemetry_app.alerts.outcomes import Answer
from telemetry_app.models.alerts import SECRET_START

AGENT = "openrl-telemetry"


def send(url: str, secret: str, body: bytes, *, message_id: str, at: datetime) -> Answer:
    """Post a body of JSON. `message_id` is the same at each attempt, so that the receiver knows it again."""
    timestamp = str(int(at.timestamp()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": AGENT,
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": signature(secret, message_id, timestamp, body),
    }
    return http.request("POST", url, body=body, headers=headers)


def signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """Return `v1,` and the HMAC-SHA256 of id, timestamp and body with dots between, in base64."""
    key = base64.b64decode(secret.removeprefix(SECRET_START))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
