"""Alert rules: which incidents are told, with what they would have told of within the last week."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelectWidget

from telemetry_app.alerts.dry_run import DAYS, DryRun, dry_run
from telemetry_app.models import AlertChannel, AlertRule, IncidentCode
from telemetry_app.templatetags.telemetry import badge, duration, words

TRY = "_try"  # the button that tries a rule and saves nothing


class RuleForm(forms.ModelForm):
    """The rule, and what it would have told of."""

    codes = forms.MultipleChoiceField(
        label="States and findings",
        required=False,
        choices=[(code.value, capfirst(words(code.value))) for code in IncidentCode],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="None chosen: every one.",
    )
    channels = forms.ModelMultipleChoiceField(
        queryset=AlertChannel.objects.all(),
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="Where it is told. There has to be a channel first.",
    )

    class Meta:
        model = AlertRule
        fields = ("name", "is_enabled", "codes", "run_contains", "tag", "owner", "after_seconds", "channels")
        widgets = {"owner": UnfoldAdminSelectWidget()}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "owner" in self.fields:  # not on the page of those who may only look
            people = get_user_model()._default_manager.filter(is_active=True, is_staff=True).order_by("username")
            self.fields["owner"].queryset = people  # type: ignore[attr-defined]
        if self.is_tried and "channels" in self.fields:  # where it would be told does not matter then
            self.fields["channels"].required = False

    def is_valid(self) -> bool:
        """Return whether it can be saved; who only tries it saves nothing."""
        return super().is_valid() and TRY not in self.data

    @cached_property
    def tried(self) -> DryRun | None:
        """What the rule would have told of: as it stands in the form, or as it is stored; None for neither."""
        is_tried = self.is_tried and not self.errors
        is_stored = not self.is_bound and self.instance.pk is not None
        return dry_run(self.instance, now=timezone.now()) if is_tried or is_stored else None

    @property
    def is_tried(self) -> bool:
        """Whether the button was pressed that tries it."""
        return self.is_bound and TRY in self.data

    @property
    def tried_days(self) -> int:
        """The days that are looked at."""
        return DAYS


@admin.register(AlertRule)
class AlertRuleAdmin(ModelAdmin):
    """Rules by name."""

    form = RuleForm
    list_display = ("name", "shown_enabled", "shown_codes", "shown_runs", "shown_delay", "shown_channels")
    list_filter = ("is_enabled",)
    list_per_page = 50
    search_fields = ("name",)
    compressed_fields = False
    change_form_before_template = "telemetry_app/alert_rule_before.html"
    change_form_after_template = "telemetry_app/alert_rule_after.html"
    empty_template = "telemetry_app/no_alert_rules.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[AlertRule]:
        """Return the rules with their channels."""
        rules: QuerySet[AlertRule] = super().get_queryset(request)
        return rules.select_related("owner").prefetch_related("channels")

    @display(description="Enabled", ordering="is_enabled")
    def shown_enabled(self, rule: AlertRule) -> SafeString:
        """Whether it tells anything."""
        return badge("enabled" if rule.is_enabled else "switched off")

    @display(description="Tells of")
    def shown_codes(self, rule: AlertRule) -> str:
        """Its states and findings in words."""
        return ", ".join(words(code) for code in rule.codes) or "every state and finding"

    @display(description="Of runs")
    def shown_runs(self, rule: AlertRule) -> str:
        """Which runs it is about."""
        parts = [f"with “{rule.run_contains}”"] if rule.run_contains else []
        parts += [f"tagged {rule.tag}"] if rule.tag else []
        parts += [f"of {rule.owner}"] if rule.owner else []
        return ", ".join(parts) or "every run"

    @display(description="After", ordering="after_seconds")
    def shown_delay(self, rule: AlertRule) -> str:
        """How long it must have lasted."""
        return duration(float(rule.after_seconds), whole=True) if rule.after_seconds else "at once"

    @display(description="To")
    def shown_channels(self, rule: AlertRule) -> str:
        """Its channels."""
        return ", ".join(str(channel) for channel in rule.channels.all())
