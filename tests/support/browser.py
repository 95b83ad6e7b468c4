"""A pytest plugin: tests marked `browser` drive Chromium; without one they do not run, and the closing lines say so."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright
from pytest_django.live_server_helper import LiveServer

from tests.support.chromium import FLAGS, find_chromium

_LEFT_OUT = pytest.StashKey[list[str]]()
_EVENTS_OF_LIVE_SERVER = re.compile(r"^http://localhost:\d+/api/v1/inspect/.*events$")
_TIMEOUT_MILLISECONDS = 30_000


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put browser tests last, or leave them out where there is no browser.

    Last, since a started browser keeps an event loop in this thread, which Django takes for asynchronous code.
    """
    browser_items = [item for item in items if item.get_closest_marker("browser")]
    if not browser_items:
        return
    others = [item for item in items if not item.get_closest_marker("browser")]
    if find_chromium() is None:
        config.stash[_LEFT_OUT] = [item.nodeid for item in browser_items]
        config.hook.pytest_deselected(items=browser_items)
        browser_items = []
    items[:] = others + browser_items


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name what did not run."""
    left_out = config.stash.get(_LEFT_OUT, [])
    if left_out:
        terminalreporter.section("browser tests that did not run: no Chromium (script/test --with-browser installs it)")
        for name in left_out:
            terminalreporter.write_line(f"did not run: {name}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, one for the whole run."""
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # for the event loop that playwright keeps in this thread
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page of its own; what goes wrong in it (script errors, refused content) fails the test.

    `live_server` can't stream: its events end at once, and pages ask again every few seconds instead.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(_TIMEOUT_MILLISECONDS)
    no_events = {"content_type": "text/event-stream", "body": "retry: 600000\n\n"}
    context.route(_EVENTS_OF_LIVE_SERVER, lambda route: route.fulfill(**no_events))
    opened, faults = context.new_page(), []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            faults.append(message.text)

    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", note)
    yield opened
    context.close()
    assert faults == []


@pytest.fixture
def admin_page(page: Page, live_server: LiveServer) -> Page:
    """A page that is signed in to `live_server` as a superuser."""
    user = get_user_model().objects.create_superuser(username="browser-admin", password="not-asked-for")
    client = Client()
    client.force_login(user)
    session = client.cookies["sessionid"].value
    page.context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    return page
