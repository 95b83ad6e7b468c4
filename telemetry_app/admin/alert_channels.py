"""Channels of alerts: where messages go, with a test whose answer is shown at once."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.widgets import UnfoldAdminTextareaWidget

from telemetry_app.alerts import email
from telemetry_app.alerts.sending import send_test
from telemetry_app.models import AlertChannel, AlertDelivery
from telemetry_app.models.alerts import new_secret
from telemetry_app.templatetags.telemetry import ago, badge, short

SEND_TEST = "_send_test"
NEW_SECRET = "_new_secret"
SHOWN_DELIVERIES = 5


class ChannelForm(forms.ModelForm):
    """Where messages go. The secret of a webhook is made by the site."""

    class Meta:
        model = AlertChannel
        fields = ("name", "kind", "recipients", "url", "is_enabled", "digest_over", "sends_again_in_doubt")
        widgets = {"recipients": UnfoldAdminTextareaWidget(attrs={"rows": 3})}
        help_texts = {
            "sends_again_in_doubt": "What was sent and never answered may have arrived. On: it is sent again with the "
            "same id, and may come twice. Off: it comes at most once, and is shown as unknown.",
            "digest_over": "Where more incidents than this begin, or end, within a minute, one message lists them.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is not None and "kind" in self.fields:
            self.fields["kind"].disabled = True  # a channel keeps its kind

    @property
    def is_mail_missing(self) -> bool:
        """Whether this is e-mail, and the site can send none."""
        return self.instance.kind == AlertChannel.Kind.EMAIL and not email.is_configured()


@admin.register(AlertChannel)
class AlertChannelAdmin(ModelAdmin):
    """Channels by name."""

    form = ChannelForm
    list_display = ("name", "shown_kind", "shown_destination", "shown_enabled", "shown_newest")
    list_per_page = 50
    search_fields = ("name",)
    compressed_fields = False
    conditional_fields = {"recipients": "kind == 'email'", "url": "kind != 'email'"}
    change_form_after_template = "telemetry_app/alert_channel_after.html"
    empty_help = "A channel is where messages go: e-mail, a webhook of yours, or a chat. Add one, and send it a test."
    empty_template = "telemetry_app/no_alert_channels.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[AlertChannel]:
        """Return the channels, each with what its newest message came to."""
        newest = AlertDelivery.objects.filter(channel=OuterRef("pk")).order_by("-created_at", "-id")
        channels: QuerySet[AlertChannel] = super().get_queryset(request)
        return channels.annotate(
            newest_state=Subquery(newest.values("state")[:1]), newest_at=Subquery(newest.values("created_at")[:1])
        )

    def get_readonly_fields(self, request: HttpRequest, obj: AlertChannel | None = None) -> Any:
        """Who may not change it sees where it leads, without what may be secret."""
        return () if obj is None or self.has_change_permission(request, obj) else ("shown_destination",)

    def get_fields(self, request: HttpRequest, obj: AlertChannel | None = None) -> Any:
        """Who may not change it does not see its URL, which may be a secret."""
        fields = [name for name in ChannelForm.Meta.fields if obj is None or name not in _others_fields(obj)]
        if obj is not None and not self.has_change_permission(request, obj):
            return ["shown_destination" if name in ("url", "recipients") else name for name in fields]
        return fields

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the form with the newest messages and what they came to."""
        key = int(object_id) if object_id.isdecimal() and len(object_id) < 18 else 0
        newest = AlertDelivery.objects.filter(channel_id=key).defer("content")[:SHOWN_DELIVERIES]
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), "deliveries": newest})

    def save_model(self, request: HttpRequest, obj: AlertChannel, form: Any, change: bool) -> None:
        """Save; a webhook gets its secret, which goes to the answer alone."""
        wants_secret = obj.kind == AlertChannel.Kind.WEBHOOK and (not obj.secret or NEW_SECRET in request.POST)
        if wants_secret:
            obj.secret = request.made_secret = new_secret()  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)

    def response_add(
        self, request: HttpRequest, obj: AlertChannel, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Go on as the button says; a new secret is shown once."""
        return self._response(request, obj) or super().response_add(request, obj, post_url_continue)

    def response_change(self, request: HttpRequest, obj: AlertChannel) -> HttpResponse:
        """Go on as the button says; a new secret is shown once."""
        return self._response(request, obj) or super().response_change(request, obj)

    def _response(self, request: HttpRequest, channel: AlertChannel) -> HttpResponse | None:
        """Send the test that was asked for, and return the page that shows its answer or a secret; None for neither."""
        is_tested = SEND_TEST in request.POST
        if is_tested:
            self._send_test(request, channel)
        page = reverse("admin:telemetry_app_alertchannel_change", args=[channel.pk])
        secret = getattr(request, "made_secret", None)
        if secret is not None:
            context = {
                **self.admin_site.each_context(request),
                "title": f"Secret of “{channel.name}”",
                "channel": channel,
                "secret": secret,
                "channel_url": page,
            }
            return TemplateResponse(request, "telemetry_app/alert_secret_made.html", context)
        return HttpResponseRedirect(page) if is_tested else None

    def _send_test(self, request: HttpRequest, channel: AlertChannel) -> None:
        test = send_test(channel)
        if test.state == AlertDelivery.State.SENT:
            messages.success(request, f"The test was taken: {test.answer}")
        else:
            messages.error(request, f"The test was not taken: {test.answer}")

    @display(description="Kind", ordering="kind")
    def shown_kind(self, channel: AlertChannel) -> str:
        """What it is."""
        return channel.get_kind_display()

    @display(description="To")
    def shown_destination(self, channel: AlertChannel) -> SafeString:
        """Where it leads, without what may be secret."""
        return short(channel.destination, 60)

    @display(description="Enabled", ordering="is_enabled")
    def shown_enabled(self, channel: AlertChannel) -> SafeString:
        """Whether it gets anything."""
        return badge("enabled" if channel.is_enabled else "switched off")

    @display(description="Newest message")
    def shown_newest(self, channel: AlertChannel) -> SafeString | str:
        """What its newest message came to."""
        if channel.newest_state is None:  # type: ignore[attr-defined]
            return "none yet"
        return format_html("{} {}", badge(channel.newest_state), ago(channel.newest_at))  # type: ignore[attr-defined]


def _others_fields(channel: AlertChannel) -> tuple[str, ...]:
    """Return the fields that a channel of another kind has."""
    return ("url",) if channel.kind == AlertChannel.Kind.EMAIL else ("recipients",)
