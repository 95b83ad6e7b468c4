"""Users and groups, in the theme's own clothes."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

for _model in (User, Group):
    admin.site.unregister(_model)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):
    """People and machines that may sign in."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    filter_horizontal = ()  # Django's two boxes have labels that screen readers can't read


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    """What groups of users may do."""

    filter_horizontal = ()
