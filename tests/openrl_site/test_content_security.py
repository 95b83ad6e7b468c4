"""What pages may load, and the paths every deployment asks for."""

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient


def _directives(response):
    policy = response.headers["Content-Security-Policy"]
    return {part.split()[0]: part.split()[1:] for part in policy.split(";")}


@pytest.mark.django_db
def test_admin_is_relaxed_only_as_far_as_its_theme_needs(client):
    directives = _directives(client.get("/admin/login/"))
    assert directives["script-src"] == ["'self'", "'unsafe-eval'"]
    assert directives["style-src"] == ["'self'", "'unsafe-inline'"]
    assert directives["default-src"] == ["'self'"]


def test_everything_else_is_strict_also_under_asgi(client):
    for response in (client.get("/healthz"), async_to_sync(AsyncClient().get)("/healthz")):
        assert response.json() == {"status": "ok"}
        assert _directives(response)["default-src"] == ["'self'"]
        assert "script-src" not in _directives(response)


def test_front_door_leads_to_the_admin(client):
    response = client.get("/")
    assert (response.status_code, response.headers["Location"]) == (302, "/admin/")
