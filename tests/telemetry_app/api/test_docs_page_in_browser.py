"""The page of the schema as a person has it open: under its policy, and without any other host."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_page_shows_every_endpoint_and_asks_no_other_host(admin_page: Page, live_server: LiveServer) -> None:
    asked: list[str] = []
    admin_page.on("request", lambda request: asked.append(request.url))
    admin_page.goto(f"{live_server.url}/api/v1/inspect/api/docs")
    expect(admin_page.get_by_text("/api/v1/inspect/runs/{run}/steps")).to_be_visible()
    admin_page.get_by_text("/api/v1/inspect/runs/{run}/steps").click()
    expect(admin_page.get_by_text("The newest so many steps.")).to_be_visible()
    assert [url for url in asked if not url.startswith((live_server.url, "data:"))] == []
