"""The site's own requests are counted by route, never by path, and once over all of its processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from telemetry_app.prometheus.served_requests import served_requests
from tests.support.running_site import ROOT
from tests.support.scraping import Metrics

pytestmark = pytest.mark.django_db


class Counted:
    """What was counted since this was made."""

    def __init__(self) -> None:
        self._before = Metrics(served_requests()).values

    @property
    def requests(self) -> dict[tuple[str, str, str], float]:
        """Requests by method, route and status."""
        found = {}
        for (name, labels), value in Metrics(served_requests()).values.items():
            more = value - self._before.get((name, labels), 0)
            if name == "openrl_site_requests_total" and more:
                each = dict(labels)
                found[each["method"], each["route"], each["status"]] = more
        return found


@pytest.fixture
def counted():
    return Counted()


def test_paths_of_one_pattern_are_one_route(client, counted):
    for run in ("a", "b", "c/d"):
        client.get(f"/api/v1/inspect/runs/{run}/steps")
    assert counted.requests == {("GET", "/api/v1/inspect/runs/<path:run>/steps", "4xx"): 3}


def test_paths_that_lead_nowhere_are_one_route(client, counted):
    for path in ("/x", "/y/z", "/" + "long" * 2_000):
        client.get(path)
    client.get("/static/telemetry_app/icon.svg").close()
    assert counted.requests == {("GET", "none", "4xx"): 3, ("GET", "static", "2xx"): 1}


def test_methods_that_nobody_knows_are_one(client, counted):
    for method in ("BREW", "PROPFIND"):
        client.generic(method, "/healthz")
    client.post("/healthz")
    assert counted.requests == {("other", "/healthz", "2xx"): 2, ("POST", "/healthz", "2xx"): 1}


def test_an_answer_that_fails_is_counted(client, counted, monkeypatch):
    monkeypatch.setattr("openrl_site.health.check_all", lambda: 1 / 0)
    client.raise_request_exception = False
    client.get("/readyz")
    assert counted.requests == {("GET", "/readyz", "5xx"): 1}


def test_each_request_has_its_time_by_route(client):
    before = Metrics(served_requests()).value("openrl_site_request_seconds_count", route="/healthz") or 0
    client.get("/healthz")
    assert Metrics(served_requests()).value("openrl_site_request_seconds_count", route="/healthz") == before + 1


# --- Several processes ----------------------------------------------------------------------------------------
SERVE = """
import django
django.setup()
from django.test import Client
for _ in range(3):
    assert Client(SERVER_NAME="localhost").get("/healthz").status_code == 200
from telemetry_app.prometheus.served_requests import served_requests
from tests.support.scraping import Metrics
print(Metrics(served_requests()).value("openrl_site_requests_total", method="GET", route="/healthz", status="2xx"))
"""


def serve(**environment):
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "openrl_site.settings", **environment}
    return subprocess.run([sys.executable, "-c", SERVE], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_processes_that_share_a_folder_tell_the_requests_of_all(tmp_path):
    ended = [serve(PROMETHEUS_MULTIPROC_DIR=str(tmp_path)) for _ in range(2)]
    assert [each.stdout for each in ended] == ["3.0\n", "6.0\n"], ended[0].stderr


def test_a_folder_that_does_not_exist_stops_the_start(tmp_path):
    ended = serve(PROMETHEUS_MULTIPROC_DIR=f"{tmp_path}/nothing")
    assert ended.returncode != 0
    assert "PROMETHEUS_MULTIPROC_DIR=" in ended.stderr
    assert "must name a folder that exists" in ended.stderr
