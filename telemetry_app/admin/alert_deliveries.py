"""What was told, to whom, and what the channels answered; and what can be sent again by hand."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from telemetry_app.admin.read_only import PageAdmin
from telemetry_app.alerts.heartbeat import heartbeat_words
from telemetry_app.alerts.sending import send_again
from telemetry_app.alerts.wording import link_lines, paragraphs
from telemetry_app.models import AlertDelivery, AlertEdge, AlertNotice
from telemetry_app.templatetags.telemetry import ago, badge

SEND_PERMISSION = "telemetry_app.change_alertdelivery"
SHOWN_NOTICES = 100


@admin.register(AlertDelivery)
class AlertDeliveryAdmin(PageAdmin):
    """Messages, newest first, each with a page of its own."""

    list_display = (
        "shown_title",
        "shown_event",
        "channel",
        "shown_state",
        "shown_answer",
        "shown_attempts",
        "shown_made",
    )
    list_display_links = ("shown_title",)
    list_filter = ("state", "edge", "channel")
    list_select_related = ("channel",)
    search_fields = ("title",)
    search_help_text = "Any part of what it is about, such as a run"
    list_before_template = "telemetry_app/alert_deliveries_before.html"
    page_template = "telemetry_app/alert_delivery.html"
    empty_template = "telemetry_app/no_alert_deliveries.html"
    ordering = ("-created_at", "-id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[AlertDelivery]:
        """Return the messages without what they say, which only their own page shows."""
        rows: QuerySet[AlertDelivery] = super().get_queryset(request).defer("content")
        return rows

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the list with the heartbeat and what is muted."""
        muted = AlertNotice.objects.filter(delivery=None, edge=AlertEdge.START, is_over=False)
        context = {"heartbeat": heartbeat_words(), "muted_count": muted.count()}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def page_context(self, key: str) -> dict[str, Any]:
        """Return what the page of a message shows."""
        delivery = AlertDelivery.objects.select_related("channel").filter(pk=_key(key)).first()
        if delivery is None:
            raise Http404
        content = json.loads(delivery.content) if delivery.content else None
        notices = delivery.notices.select_related("incident", "rule").order_by("id")
        return {
            "delivery": delivery,
            "notices": notices[:SHOWN_NOTICES],
            "paragraphs": None if content is None else [*paragraphs(content), link_lines(content)],
            "is_resendable": delivery.edge != AlertEdge.TEST and delivery.state in ("failed", "unknown"),
        }

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the page of a message, named by what it is about."""
        title = AlertDelivery.objects.filter(pk=_key(object_id)).values_list("title", flat=True).first()
        named = {"title": title or "", "may_send": request.user.has_perm(SEND_PERMISSION)}
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), **named})

    def get_urls(self) -> list[URLPattern]:
        """Add where the button leads to."""
        again = self.admin_site.admin_view(self.send_again_view)
        return [path("<int:delivery_id>/again/", again, name="telemetry_app_alertdelivery_again"), *super().get_urls()]

    def send_again_view(self, request: HttpRequest, delivery_id: int) -> HttpResponse:
        """Queue a message once more, by hand."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not request.user.has_perm(SEND_PERMISSION):
            raise PermissionDenied
        delivery = AlertDelivery.objects.filter(pk=delivery_id).first()
        if delivery is None:
            raise Http404
        if send_again(delivery):
            self.log_change(request, delivery, "Sent again by hand.")
            messages.success(request, "It is queued, and sent within seconds.")
        else:
            messages.error(request, "It was not queued: it neither failed nor is it unknown.")
        return HttpResponseRedirect(reverse("admin:telemetry_app_alertdelivery_change", args=[delivery_id]))

    @display(description="About", ordering="title")
    def shown_title(self, delivery: AlertDelivery) -> SafeString:
        """What it is about."""
        return format_html('<span class="t-reason" title="{0}">{0}</span>', delivery.title)

    @display(description="Event", ordering="edge")
    def shown_event(self, delivery: AlertDelivery) -> str:
        """Whether it tells of a start or an end, or is a test."""
        return delivery.edge

    @display(description="Attempts", ordering="attempts_count")
    def shown_attempts(self, delivery: AlertDelivery) -> int:
        """How often it was tried."""
        return delivery.attempts_count

    @display(description="State", ordering="state")
    def shown_state(self, delivery: AlertDelivery) -> SafeString:
        """How it stands."""
        return badge(delivery.state)

    @display(description="Newest answer")
    def shown_answer(self, delivery: AlertDelivery) -> SafeString:
        """What the channel answered last."""
        return format_html('<span class="t-reason" title="{0}">{0}</span>', delivery.answer or "none yet")

    @display(description="Made", ordering="created_at")
    def shown_made(self, delivery: AlertDelivery) -> SafeString:
        """Its age."""
        return ago(delivery.created_at)


def _key(object_id: str | None) -> int:
    """Return the key that a path names; 0, which none has, where it names none."""
    return int(object_id) if object_id and object_id.isdecimal() and len(object_id) < 18 else 0
