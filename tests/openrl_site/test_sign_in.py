"""Signing in with a browser, under the policy that pages are served with."""

import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_admin_signs_in_with_user_and_password(page, live_server):
    get_user_model().objects.create_superuser(username="admin", password="made-at-first-start")
    page.goto(live_server.url)
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill("made-at-first-start")
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{live_server.url}/admin/")
    expect(page.locator("body")).to_contain_text("OpenRL telemetry")


def test_signed_in_page_opens_the_admin_at_once(admin_page, live_server):
    admin_page.goto(f"{live_server.url}/admin/")
    expect(admin_page).to_have_url(f"{live_server.url}/admin/")
