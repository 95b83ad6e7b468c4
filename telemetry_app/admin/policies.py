"""Retention policies: how long each kind is kept, and what that would free right now."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from telemetry_app.admin.read_only import ReadOnlyAdmin
from telemetry_app.models import Execution, RetentionPolicy
from telemetry_app.retention_estimates import estimate_expired, oldest_at
from telemetry_app.retention_policies import HOLDINGS, ensure_policies
from telemetry_app.templatetags.telemetry import ago, figure

MOST_DAYS = 36_500


class PolicyForm(forms.ModelForm):
    """The days alone; the kind is what it is."""

    days_to_keep = forms.IntegerField(
        min_value=1,
        max_value=MOST_DAYS,
        required=False,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="Whole days (UTC); empty keeps them for ever. The next retention applies it.",
    )

    class Meta:
        model = RetentionPolicy
        fields = ("days_to_keep",)


@admin.register(RetentionPolicy)
class RetentionPolicyAdmin(ReadOnlyAdmin):
    """One row a kind; only its days can be changed."""

    form = PolicyForm
    fields = ("kind", "days_to_keep")
    readonly_fields = ("kind",)
    list_display = ("shown_kind", "shown_days", "shown_would_free", "shown_oldest", "shown_newest_execution")
    list_display_links = ("shown_kind",)
    list_per_page = len(HOLDINGS)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Whoever has the permission."""
        return ModelAdmin.has_change_permission(self, request, obj)

    def get_queryset(self, request: HttpRequest) -> Any:
        """Return the policies, all of them."""
        ensure_policies()
        return super().get_queryset(request)

    @display(description="Kind")
    def shown_kind(self, policy: RetentionPolicy) -> str:
        """What is kept."""
        return capfirst(policy.get_kind_display())

    @display(description="Days to keep")
    def shown_days(self, policy: RetentionPolicy) -> str:
        """For how long."""
        return "for ever" if policy.days_to_keep is None else figure(policy.days_to_keep)

    @display(description="Would free now")
    def shown_would_free(self, policy: RetentionPolicy) -> str:
        """An estimate: a page never counts a big table."""
        if policy.days_to_keep is None:
            return figure(None)
        expired = estimate_expired(policy, now=timezone.now())
        return f"about {figure(expired.rows)} rows, {filesizeformat(expired.size_bytes)}"

    @display(description="Oldest")
    def shown_oldest(self, policy: RetentionPolicy) -> SafeString | str:
        """The oldest row there is; of tables with a partition a day, its day."""
        holding = HOLDINGS[policy.kind]
        at = oldest_at(holding)
        return f"{at:%Y-%m-%d}" if at and holding.is_partitioned else ago(at)

    @display(description="Newest execution")
    def shown_newest_execution(self, policy: RetentionPolicy) -> str:
        """What it removed, or why it failed."""
        executions = Execution.objects.filter(task=Execution.Task.RETENTION, policy=policy.kind)
        newest = executions.order_by("-started_at").first()
        if newest is None:
            return figure(None)
        return newest.error or f"{figure(newest.rows_removed)} rows, {newest.started_at:%Y-%m-%d %H:%M} UTC"

    def save_model(self, request: HttpRequest, obj: RetentionPolicy, form: Any, change: bool) -> None:
        """Save, and say when it takes effect."""
        super().save_model(request, obj, form, change)
        messages.info(request, "The next retention applies it: daily, or at once with the button on this page.")

    def response_post_save_change(self, request: HttpRequest, obj: RetentionPolicy) -> HttpResponse:
        """Go where all policies stand beside the button that applies them."""
        return HttpResponseRedirect(reverse("admin:telemetry_upkeep"))
