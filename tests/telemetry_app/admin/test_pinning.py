"""A run that is pinned is kept whole: who may pin, and where it shows."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from telemetry_app.models import Run
from telemetry_app.snapshots import take_snapshot
from tests.support.records import op

pytestmark = pytest.mark.django_db
RUNS = "/admin/telemetry_app/run/"


@pytest.fixture
def stored(writer):
    writer.operations(op(at=1_779_264_000.0))
    take_snapshot()
    return Run.objects.get()


def choose(client: Client, action: str, run: Run) -> str:
    answer = client.post(RUNS, {"action": action, "_selected_action": [run.pk]}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_run_is_pinned_and_unpinned_from_the_list(admin_client, stored):
    assert "Runs pinned: 1." in choose(admin_client, "pin", stored)
    assert Run.objects.get().pinned
    page = admin_client.get(f"{RUNS}{stored.pk}/change/").content.decode()
    assert "pinned" in page
    choose(admin_client, "unpin", stored)
    assert not Run.objects.get().pinned
    assert "pinned" not in admin_client.get(f"{RUNS}{stored.pk}/change/").content.decode()


def test_who_may_only_look_cannot_pin(client, stored):
    viewer = get_user_model().objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_run"))
    client.force_login(viewer)
    assert 'value="pin"' not in client.get(RUNS).content.decode()
    choose(client, "pin", stored)
    assert not Run.objects.get().pinned
