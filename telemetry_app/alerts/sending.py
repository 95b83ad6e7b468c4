"""Sending what is due: claimed and written down before the first byte goes out, so that no restart sends it twice.

One process sends at a time, several channels at once, one message of a channel after the other. It takes one of
Celery's processes at most, and no longer than its budget and one time-out.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Q
from django.utils import timezone

from telemetry_app import locks
from telemetry_app.alerts import channels
from telemetry_app.alerts.content import content_of, test_content
from telemetry_app.alerts.outcomes import MOST_ATTEMPTS, MOST_WAIT_SECONDS, Answer, Outcome, wait_seconds
from telemetry_app.instants import rfc3339
from telemetry_app.models import AlertChannel, AlertDelivery, AlertEdge

LOCK = "alert_sending"
CHANNELS_AT_ONCE = 8
BUDGET_SECONDS = 15.0  # no message is begun later; one that has begun ends by its own time-out
State = AlertDelivery.State

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SendSummary:
    """What one execution did. `was_skipped`: another one was under way."""

    was_skipped: bool = False
    sent: int = 0
    failed: int = 0
    unknown: int = 0
    left_behind: int = 0


def send_due(*, budget_seconds: float = BUDGET_SECONDS) -> SendSummary:
    """Send what is due, and settle what a killed process left behind."""
    summary = SendSummary()
    with locks.held(LOCK) as is_free:
        if not is_free:
            summary.was_skipped = True
            return summary
        summary.left_behind = _settle_left_behind()
        _send_all(time.monotonic() + budget_seconds, summary)
    return summary


def send_test(channel: AlertChannel) -> AlertDelivery:
    """Send a test through a channel at once, and return it with its answer. It is not tried again."""
    now = timezone.now()
    test = AlertDelivery(channel=channel, edge=AlertEdge.TEST, title=f"Test of {channel.name}", created_at=now)
    test.due_at = test.claimed_at = now
    test.incidents_count, test.attempts_count = 0, 1
    test.content = json.dumps(test_content(test, now=now))
    answer = _send(test, f"test-{now.timestamp():.6f}")
    test.attempts = [_attempt(answer, now)]
    test.ended_at = timezone.now()
    test.state = {Outcome.DELIVERED: State.SENT, Outcome.IN_DOUBT: State.UNKNOWN}.get(answer.outcome, State.FAILED)
    test.save()
    return test


def send_again(delivery: AlertDelivery) -> bool:
    """Queue what failed or may not have arrived once more; False where that is no longer so."""
    stuck = AlertDelivery.objects.filter(pk=delivery.pk, state__in=(State.FAILED, State.UNKNOWN))
    stuck = stuck.exclude(edge=AlertEdge.TEST)
    return bool(stuck.update(state=State.QUEUED, due_at=timezone.now(), ended_at=None))


# --- One execution --------------------------------------------------------------------------------------------
def _send_all(until: float, summary: SendSummary) -> None:
    running: dict[Future[Answer], AlertDelivery] = {}
    with ThreadPoolExecutor(CHANNELS_AT_ONCE) as pool:
        while True:
            if time.monotonic() < until:
                for delivery in _claim(running.values()):
                    running[pool.submit(_send, delivery, f"alert-{delivery.pk}")] = delivery
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                _settle(running.pop(future), future.result(), summary)


def _claim(busy: Iterable[AlertDelivery]) -> list[AlertDelivery]:
    """Mark the oldest due message of each channel that is not busy as being sent, and return them."""
    taken = [delivery.channel_id for delivery in busy]
    now = timezone.now()
    # Nothing waits for so long: such a time is of a clock that was set back since.
    is_due = Q(due_at__lte=now) | Q(due_at__gt=now + timedelta(seconds=2 * MOST_WAIT_SECONDS))
    due = AlertDelivery.objects.filter(is_due, state=State.QUEUED).exclude(channel_id__in=taken)
    due = due.select_related("channel").order_by("channel_id", "due_at", "id").distinct("channel_id")
    return [delivery for delivery in due[: CHANNELS_AT_ONCE - len(taken)] if _claim_one(delivery, now)]


def _claim_one(delivery: AlertDelivery, now: datetime) -> bool:
    if not delivery.channel.is_enabled:
        _end(delivery, Answer(Outcome.REFUSED, "Not sent: the channel is switched off."), State.FAILED)
        return False
    if not _write_content(delivery, now):
        return False
    claimed = AlertDelivery.objects.filter(pk=delivery.pk, state=State.QUEUED).update(
        state=State.SENDING, claimed_at=now, attempts_count=F("attempts_count") + 1, content=delivery.content
    )
    delivery.attempts_count += 1
    delivery.claimed_at = now
    return bool(claimed)


def _write_content(delivery: AlertDelivery, now: datetime) -> bool:
    """Write what it says, once. An error of ours costs this message its attempt, and no other one anything."""
    if not delivery.content:
        try:
            delivery.content = json.dumps(content_of(delivery, now=now))
        except Exception as error:
            logger.exception("alert %s could not be written", delivery.pk)
            AlertDelivery.objects.filter(pk=delivery.pk).update(attempts_count=F("attempts_count") + 1)
            delivery.attempts_count += 1
            answer = Answer(Outcome.FAILED, f"It could not be written: {type(error).__name__}. The log says why.")
            _settle(delivery, answer, SendSummary())
            return False
    return True


def _send(delivery: AlertDelivery, message_id: str) -> Answer:
    """Send, in any thread: it asks no database."""
    at = delivery.claimed_at or timezone.now()
    try:
        return channels.send(delivery.channel, delivery.content, message_id=message_id, at=at)
    except Exception as error:
        logger.exception("%s was not sent", message_id)
        return Answer(Outcome.IN_DOUBT, f"The attempt failed in itself: {type(error).__name__}. The log says why.")


# --- What became of it ----------------------------------------------------------------------------------------
def _settle(delivery: AlertDelivery, answer: Answer, summary: SendSummary) -> None:
    """Write down what an attempt came to, and when the next one is due."""
    if answer.outcome is Outcome.DELIVERED:
        summary.sent += 1
        _end(delivery, answer, State.SENT)
        return
    wait_for = wait_seconds(delivery.attempts_count, random.random(), answer.retry_after_seconds)
    due_at = timezone.now() + timedelta(seconds=wait_for)
    is_last = delivery.attempts_count >= MOST_ATTEMPTS
    if answer.outcome is Outcome.IN_DOUBT and (is_last or not delivery.channel.sends_again_in_doubt):
        summary.unknown += 1
        _end(delivery, answer, State.UNKNOWN)
    elif answer.outcome is Outcome.REFUSED or is_last:
        summary.failed += 1
        _end(delivery, answer, State.FAILED)
    else:
        summary.failed += 1
        _end(delivery, answer, State.QUEUED, due_at=due_at)
    if answer.outcome is not Outcome.REFUSED:  # its other messages wait too: a dead channel gets one try at a time
        AlertDelivery.objects.filter(channel=delivery.channel_id, state=State.QUEUED, due_at__lt=due_at).update(
            due_at=due_at
        )


def _end(
    delivery: AlertDelivery, answer: Answer, state: AlertDelivery.State, *, due_at: datetime | None = None
) -> None:
    """Write an attempt's answer. One that another process took for left behind is known better now."""
    now = timezone.now()
    same_attempt = AlertDelivery.objects.filter(pk=delivery.pk, attempts_count=delivery.attempts_count)
    same_attempt.exclude(state=State.SENT).update(
        state=state,
        attempts=[*delivery.attempts, _attempt(answer, delivery.claimed_at or now)][-MOST_ATTEMPTS:],
        ended_at=now if state != State.QUEUED else None,
        due_at=due_at or F("due_at"),
    )


def _attempt(answer: Answer, at: datetime) -> dict[str, object]:
    return {"at": rfc3339(at), "outcome": answer.outcome.value, "answer": answer.text}


def _settle_left_behind() -> int:
    """Settle what is still being sent, though nobody else sends: its process was killed, and it may have arrived."""
    left = list(AlertDelivery.objects.filter(state=State.SENDING).select_related("channel"))
    for delivery in left:
        answer = Answer(Outcome.IN_DOUBT, "The site was stopped while it was sent.")
        again = delivery.channel.sends_again_in_doubt and delivery.attempts_count < MOST_ATTEMPTS
        _end(delivery, answer, State.QUEUED if again else State.UNKNOWN)
    return len(left)
