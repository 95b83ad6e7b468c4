"""What sentences of a verdict name of the API, written as links to pages."""

from __future__ import annotations

import pytest

from telemetry_app.templatetags.addresses import with_pages


@pytest.mark.parametrize(
    ("sentence", "url", "words"),
    [
        (
            "(GET /runs/a%2Fb/requests?stuck=true): do",
            "/admin/telemetry_app/run/a_2Fb/change/#open-requests",
            "its open",
        ),
        ("at GET /runs/a/metrics, the", "/admin/telemetry_app/run/a/change/#metrics", "its metrics"),
        ("at GET /runs/a%3Ab/verdict: that", "/admin/telemetry_app/run/a_3Ab/change/", "the run a:b"),
        (
            "at GET /runs/a/failures for",
            "/admin/telemetry_app/failedoperation/groups/?run=a&amp;hours=0",
            "its failures",
        ),
        ("at GET /workers/w-1/events, and", "/admin/telemetry_app/worker/w-1/change/", "what happened to the worker"),
        ("(GET /workers/w-1).", "/admin/telemetry_app/worker/w-1/change/", "the worker's page"),
        ("Look at GET /workers, and", "/admin/telemetry_app/worker/", "the list of workers"),
    ],
)
def test_an_address_of_the_api_is_a_link_to_the_page_that_shows_it(sentence: str, url: str, words: str) -> None:
    written = with_pages(sentence)
    assert f'href="{url}"' in written
    assert words in written.replace("&#x27;", "'")
    assert "GET" not in written


def test_what_a_worker_wrote_is_escaped() -> None:
    written = with_pages("<b> GET /runs/%3Cscript%3E/verdict: <i>")
    assert "<script" not in written
    assert written.startswith("&lt;b&gt;")
    assert written.endswith("&lt;i&gt;")
