"""Tokens for the API: made here and shown once, listed with their last use, revoked."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from telemetry_app.groups import create_machine, machines
from telemetry_app.models import ApiToken
from telemetry_app.templatetags.telemetry import ago, badge


class TokenForm(forms.ModelForm):
    """What for, of whom, until when. `allowed_users` is set by the page: those whose token one may make."""

    allowed_users: Any = None

    user: forms.ModelChoiceField = forms.ModelChoiceField(
        queryset=None, required=False, widget=UnfoldAdminSelectWidget, help_text="Whose rights it has."
    )
    new_machine = forms.CharField(
        required=False,
        max_length=150,
        widget=UnfoldAdminTextInputWidget,
        help_text="Or the name of a machine to be made: a user without a password who may only read.",
    )

    class Meta:
        model = ApiToken
        fields = ("name", "user", "expires_at")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "user" in self.fields:  # not on the page of a token there is, which asks for nothing
            self.fields["user"].queryset = self.allowed_users  # type: ignore[attr-defined]
            self.fields["expires_at"].help_text = "UTC. Empty: it never ends by itself."

    def clean_expires_at(self) -> Any:
        """Refuse an end that has passed."""
        expires_at = self.cleaned_data["expires_at"]
        if expires_at is not None and expires_at <= timezone.now():
            raise ValidationError("It must lie ahead.")
        return expires_at

    def clean(self) -> dict[str, Any]:
        """Have one user: the chosen one, or a machine that is made now."""
        values = super().clean() or {}
        machine = values.get("new_machine")
        if bool(values.get("user")) == bool(machine):
            raise ValidationError("Choose a user or name a new machine, one of the two.")
        if machine and not self.errors:
            try:
                values["user"] = create_machine(machine)
            except ValidationError as error:
                self.add_error("new_machine", ValidationError(error.messages))
        return values


@admin.register(ApiToken)
class ApiTokenAdmin(ModelAdmin):
    """Tokens of people and machines. Superusers handle all; others their own and those of machines."""

    form = TokenForm
    fields = ("name", "user", "new_machine", "expires_at")
    list_display = (
        "name", "user", "shown_prefix", "shown_status", "shown_used", "shown_created", "shown_expiry",
    )  # fmt: skip
    list_select_related = ("user",)
    list_per_page = 50
    search_fields = ("name", "prefix", "user__username")
    search_help_text = "A name, a user or how a token begins"
    actions = ("revoke",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiToken]:
        """Return the tokens that one may handle."""
        tokens: QuerySet[ApiToken] = super().get_queryset(request)
        return tokens if request.user.is_superuser else tokens.filter(user__in=_users_of(request))

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Return the form with the users that one may choose from."""
        form = super().get_form(request, obj, change=change, **kwargs)
        if obj is None:
            form.allowed_users = _users_of(request)
        return form

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return what a form asks for, and what the page of a token tells."""
        told = (
            "name",
            "user",
            "shown_prefix",
            "shown_status",
            "shown_created",
            "shown_expiry",
            "shown_revoked",
            "shown_used",
        )
        return self.fields if obj is None else told

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Nothing of a token changes but whether it is revoked."""
        return () if obj is None else self.get_fields(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Whoever has the permission may revoke in the list; a page changes nothing."""
        return obj is None and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Superusers, with the user it is of. Others revoke: such a token goes on to say whose it was."""
        return bool(request.user.is_superuser)

    @display(description="Begins with")
    def shown_prefix(self, token: ApiToken) -> str:
        """How one tells it from others."""
        return f"{token.prefix}…"

    @display(description="Status")
    def shown_status(self, token: ApiToken) -> SafeString:
        """Whether it opens anything."""
        return badge(token.status)

    @display(description="Last used", ordering="last_used_at")
    def shown_used(self, token: ApiToken) -> SafeString:
        """The age of its last use, to the minute."""
        return ago(token.last_used_at)

    @display(description="Made", ordering="created_at")
    def shown_created(self, token: ApiToken) -> SafeString:
        """Its age."""
        return ago(token.created_at)

    @display(description="Ends", ordering="expires_at", empty_value="never by itself")
    def shown_expiry(self, token: ApiToken) -> SafeString | None:
        """When it opens nothing any more."""
        return None if token.expires_at is None else ago(token.expires_at)

    @display(description="Revoked")
    def shown_revoked(self, token: ApiToken) -> SafeString:
        """When somebody revoked it."""
        return ago(token.revoked_at)

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, tokens: QuerySet[ApiToken]) -> None:
        """Let the chosen tokens open nothing from now on."""
        revoked = [token for token in tokens if token.revoke()]
        for token in revoked:
            self.log_change(request, token, "Revoked.")
        messages.success(request, f"{len(revoked)} revoked. They open nothing from now on.")

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        """Make the token; its key goes to the answer alone."""
        token, key = ApiToken.objects.issue(name=obj.name, user=obj.user, expires_at=obj.expires_at)
        obj.pk, obj.prefix = token.pk, token.prefix
        request.made_key = key  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None) -> HttpResponse:
        """Show the key: here and never again, so on a page of its own and in no message that a cookie would hold."""
        context = {
            **self.admin_site.each_context(request),
            "title": f"Token “{obj.name}”",
            "token": obj,
            "key": request.made_key,  # type: ignore[attr-defined]
            "opts": self.opts,
            "list_url": reverse("admin:telemetry_app_apitoken_changelist"),
        }
        return TemplateResponse(request, "telemetry_app/token_made.html", context)


def _users_of(request: HttpRequest) -> Any:
    """Return the users whose tokens one may make and revoke."""
    users = get_user_model()._default_manager.filter(is_active=True).order_by("username")
    return users if request.user.is_superuser else users.filter(Q(pk=request.user.pk) | Q(pk__in=machines()))
