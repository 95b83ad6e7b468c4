"""Alerts: who is told of which incidents, what was told, and what the channels answered.

An incident's start or end is one notice for each channel, however many rules lead there; a message carries one notice,
or many where many start at once.
"""

from __future__ import annotations

import base64
import secrets
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, validate_email
from django.db import models
from django.db.models import Q
from django.utils import timezone

from telemetry_app.models.incidents import Incident, IncidentCode
from telemetry_app.models.limits import TEXT_LENGTH
from telemetry_app.models.runs import TAG_LENGTH, Run
from telemetry_app.models.sealed import LostText, SealedCharField
from workers_client import wire

NAME_LENGTH = 100
MOST_RECIPIENTS = 50
MOST_DELAY_SECONDS = 7 * 86_400
SECRET_START = "whsec_"
LOST = "sealed with another SECRET_KEY than the site has"
_SECRET_BYTES = 32


def new_secret() -> str:
    """Return a secret of 256 random bits, written as the Standard Webhooks specification wants it."""
    return SECRET_START + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


class AlertChannel(models.Model):
    """Where messages go. `secret` signs those of a webhook. It and the URL, which may hold one, are stored sealed."""

    class Kind(models.TextChoices):
        EMAIL = "email", "e-mail"
        WEBHOOK = "webhook", "signed webhook"
        SLACK = "slack", "Slack-compatible webhook"

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    kind = models.CharField(max_length=16, choices=Kind)
    recipients = models.TextField(
        max_length=5_000,
        default="",
        blank=True,
        help_text="Of e-mail: addresses, with commas or on lines of their own.",
    )
    url = SealedCharField(
        "URL", max_length=2_000, default="", blank=True, help_text="Of webhooks: where messages are posted to."
    )
    secret = SealedCharField(max_length=100, default="", blank=True, editable=False)
    is_enabled = models.BooleanField("enabled", default=True)
    digest_over = models.PositiveSmallIntegerField(
        "digest over",
        default=5,
        validators=[MinValueValidator(1), MaxValueValidator(100)],
        help_text="More incidents within a minute are listed in one message.",
    )
    sends_again_in_doubt = models.BooleanField(
        "send again in doubt",
        default=False,
        help_text="Whether what was sent and never answered is sent again: it may then come twice.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def addresses(self) -> list[str]:
        """The addresses of its recipients, each once."""
        return list(dict.fromkeys(self.recipients.replace(",", " ").replace(";", " ").split()))

    @property
    def is_lost(self) -> bool:
        """Whether its URL or its secret can't be read: the site has another `SECRET_KEY` than when it was saved."""
        return isinstance(self.url, LostText) or isinstance(self.secret, LostText)

    @property
    def destination(self) -> str:
        """Where it leads to, without what in a URL may be secret."""
        if self.kind == self.Kind.EMAIL:
            return ", ".join(self.addresses)
        if isinstance(self.url, LostText):
            return LOST
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}/…"

    def clean(self) -> None:
        """Refuse a channel that can lead nowhere.

        Raises:
            ValidationError: names the field, its value and the rule.
        """
        if self.kind == self.Kind.EMAIL:
            self._clean_recipients()
        elif self.kind:
            self._clean_url()

    def _clean_recipients(self) -> None:
        addresses = self.addresses
        if not 1 <= len(addresses) <= MOST_RECIPIENTS:
            raise ValidationError({"recipients": f"{len(addresses)} addresses: give 1 to {MOST_RECIPIENTS}."})
        for address in addresses:
            try:
                validate_email(address)
            except ValidationError as error:
                raise ValidationError({"recipients": f"“{address[:80]}” is no e-mail address."}) from error

    def _clean_url(self) -> None:
        rule = "it must be http:// or https:// with a host, without spaces, user or fragment"
        try:
            parts = urlsplit(self.url)
            is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_good = False
        if not is_good or parts.username or parts.fragment or not self.url.isascii() or " " in self.url:
            raise ValidationError({"url": f"“{self.url[:80]}”: {rule}."})


class AlertRule(models.Model):
    """Which incidents are told, of which runs, after how long, and where. What is empty lets all through."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    is_enabled = models.BooleanField("enabled", default=True)
    codes = ArrayField(
        models.CharField(max_length=32, choices=IncidentCode),
        default=list,
        blank=True,
        verbose_name="states and findings",
    )
    run_contains = models.CharField(
        max_length=200, default="", blank=True, help_text="Part of a run's id or name, in any case. Empty: every run."
    )
    tag = models.CharField(
        max_length=TAG_LENGTH, default="", blank=True, help_text="Runs with this tag. Empty: with any, or none."
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,  # without its owner a rule would tell of every run
        related_name="alert_rules",
        help_text="Runs of this person. Empty: of anyone, or no one.",
    )
    after_seconds = models.PositiveIntegerField(
        default=60,
        validators=[MaxValueValidator(MOST_DELAY_SECONDS)],
        help_text="Seconds that it must have lasted, from its start. What ends earlier is not told.",
    )
    channels = models.ManyToManyField(AlertChannel, related_name="rules")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def applies_to(self, incident: Incident, run: Run | None) -> bool:
        """Return whether an incident is one that this rule tells of; a run that no snapshot took yet has no row."""
        if self.codes and incident.code not in self.codes:
            return False
        if self.tag and (run is None or self.tag not in run.tags):
            return False
        if self.owner_id is not None and (run is None or run.owner_id != self.owner_id):
            return False
        part = self.run_contains.casefold()
        return part in incident.run_id.casefold() or (run is not None and part in run.name.casefold())

    def has_lasted(self, incident: Incident, now: datetime) -> bool:
        """Return whether an incident has lasted long enough, or had when it ended."""
        return (incident.ended_at or now) - incident.started_at >= timedelta(seconds=self.after_seconds)


class AlertMuteQuerySet(models.QuerySet["AlertMute"]):
    """Mutes, by whether they hold."""

    def holding(self, at: datetime) -> AlertMuteQuerySet:
        """Return those that hold at an instant."""
        return self.filter(Q(ends_at=None) | Q(ends_at__gt=at), starts_at__lte=at)


class AlertMute(models.Model):
    """What is told to nobody for a time: a run, a rule, both together, or everything where both are empty."""

    id = models.BigAutoField(primary_key=True)
    run_id = models.CharField(
        "run", max_length=wire.RUN_ID_LIMIT, default="", blank=True, help_text="A run's whole id. Empty: every run."
    )
    rule = models.ForeignKey(
        AlertRule, null=True, blank=True, on_delete=models.CASCADE, related_name="mutes", help_text="Empty: every rule."
    )
    starts_at = models.DateTimeField("from", default=timezone.now)
    ends_at = models.DateTimeField("until", null=True, blank=True, help_text="Empty: until the mute is removed.")
    note = models.CharField(max_length=200, default="", blank=True, help_text="Why, for the others.")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, editable=False, on_delete=models.SET_NULL, related_name="+"
    )

    objects = AlertMuteQuerySet.as_manager()

    class Meta:
        ordering = ["-starts_at", "-id"]
        constraints = [
            models.CheckConstraint(
                name="alert_mute_ends_after_start",
                condition=Q(ends_at=None) | Q(ends_at__gt=models.F("starts_at")),
                violation_error_message="It must end after it begins.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.run_id or 'every run'}, {self.rule.name if self.rule else 'every rule'}"

    def covers(self, run_id: str, rule: AlertRule | None) -> bool:
        """Return whether it silences what a rule tells of a run. A rule may be gone (None)."""
        rule_id = None if rule is None else rule.pk
        return self.run_id in ("", run_id) and self.rule_id in (None, rule_id)


class AlertEdge(models.TextChoices):
    """What a message is about."""

    START = "start"
    END = "end"
    TEST = "test"


class AlertDelivery(models.Model):
    """One message for one channel, from the instant it is due to what the channel answered."""

    class State(models.TextChoices):
        QUEUED = "queued"
        SENDING = "sending"  # written before the first byte goes out: what is found so after a kill may have arrived
        SENT = "sent"
        FAILED = "failed"
        UNKNOWN = "unknown"

    id = models.BigAutoField(primary_key=True)
    channel = models.ForeignKey(AlertChannel, on_delete=models.CASCADE, related_name="deliveries")
    edge = models.CharField("about", max_length=8, choices=AlertEdge)
    title = models.CharField(max_length=TEXT_LENGTH)
    state = models.CharField(max_length=8, choices=State, default=State.QUEUED)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(help_text="When it is sent next.")
    claimed_at = models.DateTimeField(null=True, help_text="When the newest attempt began.")
    ended_at = models.DateTimeField(null=True, help_text="When nothing more was to be done.")
    incidents_count = models.PositiveIntegerField(default=1)
    attempts_count = models.PositiveIntegerField(default=0)
    attempts = models.JSONField(default=list, help_text="Each attempt: when, how it went, and what was answered.")
    content = models.TextField(default="", help_text="What it says, as JSON: the same bytes at each attempt.")

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name_plural = "alert deliveries"
        indexes = [
            # what is due, by channel
            models.Index(fields=["channel", "due_at", "id"], name="alert_due", condition=Q(state="queued")),
            # what a killed process left behind
            models.Index(fields=["id"], name="alert_sending", condition=Q(state="sending")),
            # the newest of a channel, on its page and in the list of channels
            models.Index(fields=["channel", "-created_at", "-id"], name="alert_by_channel"),
            # the list, and those of the last minute
            models.Index(fields=["-created_at", "-id"], name="alert_by_time"),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def answer(self) -> str:
        """What the channel answered last, in words; empty before the first attempt ended."""
        return str(self.attempts[-1]["answer"]) if self.attempts else ""


class AlertNotice(models.Model):
    """One edge of one incident for one channel: at most one, whatever restarts. Muted as long as it has no delivery."""

    id = models.BigAutoField(primary_key=True)
    channel = models.ForeignKey(AlertChannel, on_delete=models.CASCADE, related_name="notices")
    incident = models.ForeignKey(Incident, on_delete=models.DO_NOTHING, db_constraint=False, related_name="notices")
    edge = models.CharField(max_length=8, choices=AlertEdge)
    rule = models.ForeignKey(AlertRule, null=True, on_delete=models.SET_NULL, related_name="notices")
    mute = models.ForeignKey(AlertMute, null=True, on_delete=models.SET_NULL, related_name="notices")
    delivery = models.ForeignKey(
        AlertDelivery, null=True, on_delete=models.CASCADE, db_constraint=False, related_name="notices"
    )
    noticed_at = models.DateTimeField()
    is_over = models.BooleanField(default=False, help_text="Of a start: nothing more is told of this incident.")

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["channel", "incident", "edge"], name="alert_notice_once")]
        indexes = [
            # starts whose end is still to be told
            models.Index(fields=["incident"], name="alert_notice_open", condition=Q(edge="start", is_over=False)),
        ]

    def __str__(self) -> str:
        return f"{self.edge} of incident {self.incident_id}"


class HeartbeatPing(models.Model):
    """The newest ping to the external heartbeat service: one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    looked_at = models.DateTimeField(null=True, help_text="When it was looked whether the site is well.")
    pinged_at = models.DateTimeField(null=True, help_text="When the service was asked last.")
    taken_at = models.DateTimeField(null=True, help_text="When it took a ping last.")
    alerts_at = models.DateTimeField(null=True, help_text="When alerts were last noted and sent to the end.")
    is_well = models.BooleanField(default=False, help_text="Whether the site was well, and the service took the ping.")
    detail = models.CharField(max_length=TEXT_LENGTH, default="", help_text="What it answered, or why none was sent.")

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="heartbeat_ping_one_row")]

    def __str__(self) -> str:
        return self.detail
