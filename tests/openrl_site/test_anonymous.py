"""Nothing but health is told without sign-in: every path there is, asked by nobody."""

from __future__ import annotations

import re

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RegexPattern

API = "/api/v1/inspect"
HEALTH = {"/healthz", "/readyz", f"{API}/healthz", f"{API}/readyz"}
# The sign-in, and what leads to it or to a file that it shows.
OPEN = {"/admin/login/", "/favicon.ico"}


def paths_of(patterns, prefix="/"):
    """Return a path for every pattern, with something in place of what varies."""
    for pattern in patterns:
        path = prefix + _example(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from paths_of(pattern.url_patterns, path)
        elif isinstance(pattern, URLPattern):
            yield path


def _example(pattern):
    text = str(pattern)
    if isinstance(pattern, RegexPattern):
        text = re.sub(r"\(\?P<\w+>\(?(?:\?:)?([\w.*+]+)[^)]*\)+", r"\1", text.strip("^$\\Z"))
        return text.replace(".*", "x").replace(".+", "x")
    return re.sub(r"<int:\w+>", "1", re.sub(r"<(?:(?!int:)\w+:)?\w+>", "x", text))


PATHS = sorted(set(paths_of(get_resolver().url_patterns)))


def test_the_walk_finds_what_there_is():
    assert {*HEALTH, *OPEN, "/", "/admin/", f"{API}/runs", f"{API}/runs/x/steps", f"{API}/x"} <= set(PATHS)
    assert {"/admin/telemetry_app/run/x/change/", "/admin/telemetry_app/execution/start/x/"} <= set(PATHS)
    assert len(PATHS) > 80
    assert not [path for path in PATHS if set(path) & set("<>()?*^$\\")]


@pytest.mark.django_db
@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("path", [path for path in PATHS if path not in HEALTH | OPEN])
def test_nobody_is_told_anything(client, path, method):
    response = getattr(client, method)(path)
    if path.startswith(("/api/", "/mcp")) and response.status_code != 302:
        assert response.status_code == 401
        assert response.json()["errors"][0]["code"] == "not_authenticated"
    elif response.status_code == 302:
        target = response.headers["Location"]
        assert target == "/admin/" or target.startswith("/admin/login/?next=")
    else:
        assert response.status_code in (401, 403)  # 401 of what plots and scripts read below the admin


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_client")
@pytest.mark.parametrize("path", sorted(HEALTH))
def test_health_is_told_to_everyone(client, path):
    assert client.get(path).status_code in (200, 503)
