"""The two groups of people and machines: `viewer` reads, `operator` also keeps the site running."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db import connection
from django.db.models import Q

VIEWER = "viewer"
OPERATOR = "operator"

_SCHEDULE = Q(content_type__app_label="django_celery_beat")
_TELEMETRY = Q(content_type__app_label="telemetry_app")
_TOKENS = _TELEMETRY & Q(content_type__model="apitoken")
_READS = (_SCHEDULE | _TELEMETRY) & Q(codename__startswith="view_") & ~_TOKENS
# Runs are changed by pinning them, executions added by starting one; tokens are revoked, never deleted.
_OPERATES = (
    _SCHEDULE
    | _TELEMETRY & Q(codename__in=("change_retentionpolicy", "change_run", "add_execution"))
    | _TELEMETRY & Q(content_type__model__in=("alertrule", "alertchannel", "alertmute"))
    | _TELEMETRY & Q(codename="change_alertdelivery")  # what failed is sent again by hand
    | _TOKENS & ~Q(codename="delete_apitoken")
)


def create_after_migrate(**_: object) -> None:
    """Give both groups what they lack (a receiver of `post_migrate`); what else they were given stays.

    The permissions are there: Django's own receiver comes before, and applications go in the order of the settings.
    """
    tables = set(connection.introspection.table_names())
    if {"auth_group", "auth_permission", "django_celery_beat_periodictask"} <= tables:
        create_groups()


def create_groups() -> None:
    """Create the groups where they are missing, with all their permissions."""
    # Models of another application: loaded only once all applications are.
    from django.contrib.auth.models import Group, Permission

    for name, granted in ((VIEWER, _READS), (OPERATOR, _READS | _OPERATES)):
        group, _ = Group.objects.get_or_create(name=name)
        group.permissions.add(*Permission.objects.filter(granted))


# --- Machines -------------------------------------------------------------------------------------------------
def machines() -> Any:
    """Return the users that are machines: active, not staff, without a password; they come in by token alone."""
    users = get_user_model()._default_manager
    return users.filter(
        is_active=True, is_staff=False, is_superuser=False, password__startswith=UNUSABLE_PASSWORD_PREFIX
    )


def create_machine(username: str) -> Any:
    """Return a new machine that may read.

    Raises:
        ValidationError: there is a user of that name, or the name can't be one.
    """
    # Models of another application: loaded only once all applications are.
    from django.contrib.auth.models import Group

    model = get_user_model()
    user = model(username=username)
    user.set_unusable_password()
    user.full_clean()
    user.save()
    user.groups.add(Group.objects.get_or_create(name=VIEWER)[0])
    return user
