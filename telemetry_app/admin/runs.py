"""Runs: the list, and the page of one run with its newest steps, failures and workers."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db.models import CharField, F, Func, Model, QuerySet, Value
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import RangeDateTimeFilter
from unfold.decorators import display

from telemetry_app.admin.choice_filters import WordsFilter
from telemetry_app.admin.compare import MOST_RUNS, compare_page, compare_url
from telemetry_app.admin.devices import device_urls
from telemetry_app.admin.open_requests import requests_view
from telemetry_app.admin.read_only import PageAdmin
from telemetry_app.admin.run_descriptions import RunDescriptionForm
from telemetry_app.admin.run_list_filters import MissingFilter, SavedFilter, TagFilter, saved_filters
from telemetry_app.admin.run_page import run_page
from telemetry_app.admin.run_plots import plot_urls
from telemetry_app.inspection.run_previews import run_previews
from telemetry_app.models import Run
from telemetry_app.models.runs import EDITED_FIELDS
from telemetry_app.templatetags.telemetry import NOTHING, ago, badge, figure, reading, sparkline


@admin.register(Run)
class RunAdmin(PageAdmin):
    """Runs, newest activity first."""

    list_display = (
        "shown_id", "shown_state", "shown_steps", "shown_step_time", "shown_loss", "shown_reward", "shown_failures",
        "shown_activity", "shown_owner",
    )  # fmt: skip
    list_display_links = ("shown_id",)
    list_select_related = ("owner",)
    list_filter = (
        SavedFilter,
        ("state", WordsFilter),
        TagFilter,
        MissingFilter,
        ("last_activity_at", RangeDateTimeFilter),
    )
    list_before_template = "telemetry_app/runs_before.html"
    empty_template = "telemetry_app/no_runs.html"
    actions = ("compare", "pin", "unpin")
    list_filter_submit = True
    search_fields = ("run_id", "name", "tags_text")
    search_help_text = "Any part of an id, a name or a tag"
    ordering = ("-last_activity_at", "run_id")
    page_template = "telemetry_app/run.html"
    form = RunDescriptionForm
    fields = EDITED_FIELDS

    # --- The list ---------------------------------------------------------------------------------------------
    @display(description="Run", ordering="run_id")
    def shown_id(self, run: Run) -> SafeString:
        """The name people gave it, its id with its middle left out, its tags, and whether it is kept whole."""
        return render_to_string("telemetry_app/run_cell.html", {"run": run})

    @display(description="State", ordering="state")
    def shown_state(self, run: Run) -> SafeString:
        """The state as a coloured word, with its reason."""
        return format_html(
            '<span class="t-why">{} <span class="t-reason" title="{}">{}</span></span>',
            badge(run.state), run.state_reason, run.state_reason,
        )  # fmt: skip

    @display(description="Steps", ordering="steps_completed")
    def shown_steps(self, run: Run) -> SafeString:
        """Successful optim_steps, and the newest ones' rate where there is one now."""
        rate = "" if run.steps_per_hour is None else f"{figure(round(run.steps_per_hour))}/h"
        return format_html('{} <span class="t-unit">{}</span>', figure(run.steps_completed), rate)

    @display(description="Step time")
    def shown_step_time(self, run: Any) -> SafeString:
        """How long the newest steps took."""
        return sparkline(run.preview.step_seconds)

    @display(description="Loss")
    def shown_loss(self, run: Any) -> SafeString:
        """The newest loss that was reported."""
        return reading(run.preview.loss)

    @display(description="Reward")
    def shown_reward(self, run: Any) -> SafeString:
        """The newest reward that was reported."""
        return reading(run.preview.reward)

    @display(description="Failures", ordering="failures_count")
    def shown_failures(self, run: Run) -> SafeString:
        """Failed ops and failed sampling answers, with a link to them."""
        if not run.failures_count:
            return SafeString("0")
        url = f"{reverse('admin:telemetry_failures')}?{urlencode({'run': run.run_id, 'hours': '0'})}"
        return format_html('<a class="t-link t-count-bad" href="{}">{}</a>', url, figure(run.failures_count))

    @display(description="Activity", ordering="last_activity_at")
    def shown_activity(self, run: Run) -> SafeString:
        """The age of the newest recorded activity."""
        return ago(run.last_activity_at)

    @display(description="Owner", ordering="owner__username")
    def shown_owner(self, run: Run) -> Any:
        """Whose it is."""
        return run.owner.get_username() if run.owner else NOTHING

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        """All runs, without the columns that the list does not show."""
        tags_text = Func(F("tags"), Value(" "), function="array_to_string", output_field=CharField())
        return super().get_queryset(request).defer("ledger_seen", "notes").alias(tags_text=tags_text)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Return the page of the list with what it shows of each run's newest steps."""
        changes = super().get_changelist_instance(request)
        previews = run_previews([run.pk for run in changes.result_list])
        for run in changes.result_list:
            run.preview = previews[run.pk]
        return changes

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the list with the saved filters over it."""
        return super().changelist_view(request, {**(extra_context or {}), "saved_filters": saved_filters(request)})

    # --- What people edit -------------------------------------------------------------------------------------
    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Operators, and who else has the permission."""
        return ModelAdmin.has_change_permission(self, request, obj)

    @admin.action(description=f"Compare by step: up to {MOST_RUNS} runs")
    def compare(self, request: HttpRequest, runs: QuerySet[Run]) -> HttpResponse:
        """Show the chosen runs side by side."""
        return HttpResponseRedirect(compare_url([run.pk for run in runs[:MOST_RUNS]]))

    @admin.action(description="Pin: keep whole, whatever the retention policies say", permissions=["change"])
    def pin(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        """Keep the chosen runs whole."""
        self.message_user(request, f"Runs pinned: {runs.update(pinned=True)}.")

    @admin.action(description="Unpin: the retention policies apply", permissions=["change"])
    def unpin(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        """Leave the chosen runs to the policies."""
        self.message_user(request, f"Runs no longer pinned: {runs.update(pinned=False)}.")

    def get_urls(self) -> list[URLPattern]:
        """Add the form of what people say of a run, open requests, the comparison, GPUs, and what plots read."""
        views = (self.describe_view, requests_view, compare_page)
        describe, requests, compare = map(self.admin_site.admin_view, views)
        return [
            path("requests/", requests, name="telemetry_requests"),
            path("compare/", compare, name="telemetry_app_run_compare"),
            *device_urls(),
            path("<path:object_id>/describe/", describe, name="telemetry_app_run_describe"),
            *plot_urls(),
            *super().get_urls(),
        ]

    def describe_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show and take the form."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        return self.form_view(request, object_id, extra_context={"show_save_and_continue": False})

    def save_model(self, request: HttpRequest, obj: Run, form: Any, change: bool) -> None:
        """Save what was edited and nothing else: a snapshot may write the rest meanwhile."""
        obj.save(update_fields=EDITED_FIELDS)

    def response_change(self, request: HttpRequest, obj: Run) -> HttpResponse:
        """Go to the page of the run."""
        messages.success(request, "Saved.")
        return HttpResponseRedirect(reverse("admin:telemetry_app_run_change", args=[quote(obj.pk)]))

    # --- The page of one run ----------------------------------------------------------------------------------
    def page_context(self, key: str) -> dict[str, Any]:
        """Return what the page shows."""
        return run_page(key)
