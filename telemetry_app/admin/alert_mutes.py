"""Mutes: what is told to nobody for a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import display

from telemetry_app.models import AlertMute
from telemetry_app.templatetags.telemetry import ago, badge, short

USUAL = timedelta(hours=4)


class HoldingFilter(admin.SimpleListFilter):
    """Mutes that hold now, or that don't."""

    title = "holding"
    parameter_name = "holding"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return [("yes", "hold now"), ("later", "still to come"), ("no", "over")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[AlertMute]) -> QuerySet[AlertMute]:
        """Return those that hold, those that will, or those that are over."""
        now = timezone.now()
        holding = Q(starts_at__lte=now) & (Q(ends_at=None) | Q(ends_at__gt=now))
        wanted = {"yes": holding, "later": Q(starts_at__gt=now), "no": Q(ends_at__lte=now)}
        return queryset.filter(wanted.get(self.value() or "", Q()))


@admin.register(AlertMute)
class AlertMuteAdmin(ModelAdmin):
    """Mutes, newest first."""

    fields = ("run_id", "rule", "starts_at", "ends_at", "note")
    list_display = ("shown_run", "shown_rule", "shown_holding", "shown_start", "shown_end", "note", "created_by")
    list_filter = (HoldingFilter,)
    list_select_related = ("rule", "created_by")
    list_per_page = 50
    search_fields = ("run_id", "note", "rule__name")
    search_help_text = "Any part of a run's id, a rule's name or a note"
    compressed_fields = False
    change_form_before_template = "telemetry_app/alert_mute_before.html"
    empty_help = "Mute a run, a rule or everything for a time: what still holds afterwards is told then."

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Begin with four hours from now, and with what the link names."""
        now = timezone.now().replace(microsecond=0)
        return {"starts_at": now, "ends_at": now + USUAL, **super().get_changeform_initial_data(request)}

    def save_model(self, request: HttpRequest, obj: AlertMute, form: Any, change: bool) -> None:
        """Save with who made it."""
        if not change:
            obj.created_by_id = request.user.pk
        super().save_model(request, obj, form, change)

    @display(description="Run", ordering="run_id")
    def shown_run(self, mute: AlertMute) -> SafeString | str:
        """The run, or every one."""
        return short(mute.run_id, 40) if mute.run_id else "every run"

    @display(description="Rule", ordering="rule__name")
    def shown_rule(self, mute: AlertMute) -> str:
        """The rule, or every one."""
        return mute.rule.name if mute.rule else "every rule"

    @display(description="Holds")
    def shown_holding(self, mute: AlertMute) -> SafeString:
        """Whether it holds now."""
        now = timezone.now()
        if mute.starts_at > now:
            return badge("still to come")
        return badge("over" if mute.ends_at is not None and mute.ends_at <= now else "muted")

    @display(description="From", ordering="starts_at")
    def shown_start(self, mute: AlertMute) -> SafeString:
        """When it begins."""
        return ago(mute.starts_at)

    @display(description="Until", ordering="ends_at")
    def shown_end(self, mute: AlertMute) -> SafeString | str:
        """When it ends."""
        return ago(mute.ends_at) if mute.ends_at else "it is removed"
