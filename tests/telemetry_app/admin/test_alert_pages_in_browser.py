"""Forms of alerts in Chromium: what a kind of channel asks for, and a rule that is tried before it is saved."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from telemetry_app.models import AlertChannel, AlertRule

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_client")]
BASE = "/admin/telemetry_app"


def test_a_channel_asks_for_what_its_kind_needs_and_shows_it_later(admin_page: Page, live_server: LiveServer) -> None:
    admin_page.goto(f"{live_server.url}{BASE}/alertchannel/add/")
    admin_page.select_option("#id_kind", "email")
    expect(admin_page.locator("#id_recipients")).to_be_visible()
    expect(admin_page.locator("#id_url")).to_be_hidden()
    admin_page.select_option("#id_kind", "slack")
    expect(admin_page.locator("#id_recipients")).to_be_hidden()
    admin_page.fill("#id_name", "chat")
    admin_page.fill("#id_url", "http://127.0.0.1:9/hook")
    admin_page.click("button[name=_send_test]")
    expect(admin_page.get_by_text("The test was not taken: Not sent: 127.0.0.1 is not public").first).to_be_visible()
    expect(admin_page.locator("#id_url")).to_have_value("http://127.0.0.1:9/hook")
    expect(admin_page.locator("#id_url")).to_be_visible()


def test_a_rule_is_tried_and_then_saved(admin_page: Page, live_server: LiveServer) -> None:
    AlertChannel.objects.create(name="chat", kind="slack", url="https://chat.example/")
    admin_page.goto(f"{live_server.url}{BASE}/alertrule/add/")
    admin_page.fill("#id_name", "Nights")
    admin_page.check("input[name=codes][value=lost]")
    admin_page.check("input[name=channels]")
    admin_page.click("button[name=_try]")
    expect(admin_page.locator("#dry-run-title")).to_have_text("Within the last 7 days it would have sent 0")
    expect(admin_page.locator("#dry-run-title")).to_be_in_viewport()
    assert not AlertRule.objects.exists()
    admin_page.click("button[name=_save]")
    expect(admin_page.get_by_role("link", name="Nights").first).to_be_visible()
    assert AlertRule.objects.get().codes == ["lost"]
