"""Users and groups, in the theme's own clothes."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from telemetry_app.templatetags.telemetry import NOTHING, ago, badge

for _model in (User, Group):
    admin.site.unregister(_model)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):
    """People and machines that may sign in."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    filter_horizontal = ()  # Django's two boxes have labels that screen readers can't read
    list_display = ("username", "email", "shown_rights", "shown_active", "shown_login")
    search_help_text = "Any part of a name or an e-mail address"

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        """All users, with their groups."""
        return super().get_queryset(request).prefetch_related("groups")

    @display(description="Rights")
    def shown_rights(self, user: User) -> Any:
        """What they may do: all, or what their groups may."""
        groups = ", ".join(group.name for group in user.groups.all())
        return "everything" if user.is_superuser else groups or NOTHING

    @display(description="May sign in", ordering="is_active")
    def shown_active(self, user: User) -> SafeString:
        """Whether they open this admin; machines have tokens alone."""
        opens = user.is_active and user.is_staff and user.has_usable_password()
        return badge("active" if opens else "tokens only" if user.is_active else "off")

    @display(description="Last sign-in", ordering="last_login")
    def shown_login(self, user: User) -> SafeString:
        """The age of the newest one."""
        return ago(user.last_login)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    """What groups of users may do."""

    filter_horizontal = ()
