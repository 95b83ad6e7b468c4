"""Addresses of the API inside sentences, written as links to the pages that show the same."""

from __future__ import annotations

import re
from urllib.parse import unquote

from django import template
from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils.html import conditional_escape, format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe

register = template.Library()
_ADDRESS = re.compile(r"GET /(?P<what>runs|workers)(?:/(?P<key>[^/\s?,)]+))?(?:/(?P<part>\w+))?(?:\?[\w=&]+)?")
# What is asked of a run: the words of the link, and where its page shows it.
_OF_RUN = {
    "requests": ("its open requests", "#open-requests"),
    "metrics": ("its metrics", "#metrics"),
    "operations": ("its newest steps", "#newest-steps"),
}


@register.filter
def with_pages(text: str) -> SafeString:
    """Write a sentence of a verdict with links in place of what it names of the API (`GET /runs/…/requests`)."""
    written, end = [], 0
    for found in _ADDRESS.finditer(text):
        written += [conditional_escape(text[end : found.start()]), _link(**found.groupdict())]
        end = found.end()
    return mark_safe("".join([*written, conditional_escape(text[end:])]))  # each part is escaped


def _link(what: str, key: str | None, part: str | None) -> SafeString:
    words, url = _page(what, unquote(key or ""), part or "")
    return format_html('<a class="t-link" href="{}">{}</a>', url, words)


def _page(what: str, key: str, part: str) -> tuple[str, str]:
    if not key:
        return f"the list of {what}", reverse(f"admin:telemetry_app_{what[:-1]}_changelist")
    url = reverse(f"admin:telemetry_app_{what[:-1]}_change", args=[quote(key)])
    if what == "workers":
        return "what happened to the worker" if part == "events" else "the worker's page", url
    if part == "failures":
        return "its failures", f"{reverse('admin:telemetry_failures')}?{urlencode({'run': key, 'hours': '0'})}"
    words, anchor = _OF_RUN.get(part, (f"the run {key}", ""))
    return words, url + anchor
