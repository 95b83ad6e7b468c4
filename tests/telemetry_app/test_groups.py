"""What the two groups may do, and which users are machines."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ValidationError

from telemetry_app.groups import OPERATOR, VIEWER, create_groups, create_machine, machines

pytestmark = pytest.mark.django_db


def permissions_of(name):
    found = Group.objects.get(name=name).permissions.values_list("content_type__app_label", "codename")
    return {f"{label}.{codename}" for label, codename in found}


def test_viewers_read_and_do_nothing_else():
    granted = permissions_of(VIEWER)
    assert {"telemetry_app.view_run", "telemetry_app.view_worker", "django_celery_beat.view_periodictask"} <= granted
    assert "telemetry_app.view_apitoken" not in granted
    assert all(".view_" in permission for permission in granted)


def test_operators_do_what_keeps_the_site_running_and_nothing_to_users_or_history():
    granted = permissions_of(OPERATOR) - permissions_of(VIEWER)
    of_schedule = {permission for permission in granted if permission.startswith("django_celery_beat.")}
    assert granted - of_schedule == {
        "telemetry_app.change_retentionpolicy", "telemetry_app.change_run", "telemetry_app.add_execution",
        "telemetry_app.view_apitoken", "telemetry_app.add_apitoken", "telemetry_app.change_apitoken",
        "telemetry_app.change_alertdelivery",
        *(
            f"telemetry_app.{action}_{model}"
            for action in ("add", "change", "delete")
            for model in ("alertrule", "alertchannel", "alertmute")
        ),
    }  # fmt: skip
    assert "django_celery_beat.change_periodictask" in of_schedule
    assert permissions_of(VIEWER) <= permissions_of(OPERATOR)


def test_migrating_again_gives_what_is_missing_and_takes_nothing():
    group = Group.objects.get(name=VIEWER)
    extra = Permission.objects.get(codename="view_user")
    group.permissions.set([extra])
    create_groups()
    assert "auth.view_user" in permissions_of(VIEWER)
    assert "telemetry_app.view_run" in permissions_of(VIEWER)


def test_a_machine_reads_and_has_no_password():
    machine = create_machine("night-watch")
    assert list(machines()) == [machine]
    assert not machine.has_usable_password()
    assert machine.has_perm("telemetry_app.view_run")
    assert not machine.is_staff


@pytest.mark.parametrize("name", ["", "a b", "x" * 151, "<b>"])
def test_a_machine_needs_a_name_that_users_can_have(name):
    with pytest.raises(ValidationError):
        create_machine(name)


def test_people_are_no_machines(django_user_model):
    users = django_user_model.objects
    users.create_user("person", password="secret")
    users.create_user("staff", is_staff=True)
    users.create_user("gone", is_active=False)
    users.create_superuser("root")
    assert not machines().exists()
    with pytest.raises(ValidationError):
        create_machine("person")
