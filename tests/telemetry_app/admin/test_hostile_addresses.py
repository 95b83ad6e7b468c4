"""Odd addresses of the admin's pages make no fault."""

from __future__ import annotations

import pytest
import redis
from django.test import Client
from django.utils import timezone

from telemetry_app.models import Run

pytestmark = pytest.mark.django_db
MODELS = ("run", "worker", "failedoperation", "execution", "retentionpolicy", "apitoken")
QUERIES = [
    "q=%00", "q=%ff", "o=999", "o=abc", "p=abc", "p=-1", f"p={'9' * 30}", "state__exact=%00", "pk=%00", "health=%00",
    "last_activity_at_from_0=x", "policy=%00", "outcome=%00", "role__exact=%00", f"id__exact={'9' * 30}", "nothing=1",
    "_popup=1&_to_field=x", "error_type=%00", f"q={'x' * 3_000}", "password__startswith=a", "user__password=x",
]  # fmt: skip
KEYS = ["%00", "_00", "x" * 3_000, "..", "%ff", "<script>", "9" * 30, "\u202e", "_", "__"]


def test_odd_queries_of_lists(admin_client: Client, redis_client: redis.Redis) -> None:
    for model in MODELS:
        for query in QUERIES:
            assert admin_client.get(f"/admin/telemetry_app/{model}/?{query}").status_code < 500, (model, query)


@pytest.mark.parametrize("page", ["change", "history", "delete"])
def test_odd_keys_of_pages(admin_client: Client, redis_client: redis.Redis, page: str) -> None:
    Run.objects.create(run_id="run-a", first_seen_at=timezone.now(), last_activity_at=timezone.now())
    for model in MODELS:
        for key in KEYS:
            response = admin_client.get(f"/admin/telemetry_app/{model}/{key}/{page}/")
            assert response.status_code < 500, (model, key)
            assert b"<script>alert" not in response.content
