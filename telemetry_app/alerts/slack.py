"""Messages for incoming webhooks as Slack's are: Mattermost, Rocket.Chat, Zulip and others take them too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from telemetry_app.alerts import http
from telemetry_app.alerts.outcomes import Answer
from telemetry_app.alerts.webhook import AGENT
from telemetry_app.alerts.wording import link_lines, links, paragraphs, title_line

SECTION_LENGTH = 2_900  # characters; Slack refuses a section of more than 3,000
TEXT_LENGTH = 3_500
_UNSEEN = "\N{ZERO WIDTH SPACE}"
_MARKS = {"incident.start": "\N{LARGE RED CIRCLE}", "incident.end": "\N{LARGE GREEN CIRCLE}", "test": "\N{BELL}"}


def send(url: str, content: Mapping[str, Any]) -> Answer:
    """Post the message."""
    body = json.dumps(message_of(content)).encode()
    return http.request("POST", url, body=body, headers={"Content-Type": "application/json", "User-Agent": AGENT})


def message_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message: blocks of plain text, in which nothing is a mention or a link, and a text for the others."""
    title = f"{_MARKS[content['event']]} {title_line(content)}"
    parts = ["\n".join(lines) for lines in paragraphs(content)]
    sections = [{"type": "section", "text": _plain(part[:SECTION_LENGTH])} for part in parts if part.strip()]
    lines = link_lines(content)
    # A URL of ours is percent-encoded: it holds nothing that ends a link.
    found = " · ".join(f"<{link}|{what}>" for what, link in links(content).items())
    closing = {"type": "mrkdwn", "text": found} if found else _plain(lines[0])
    text = _escaped("\n\n".join([title, *parts])[:TEXT_LENGTH])
    return {
        "text": "\n\n".join([text, *lines]),
        "blocks": [
            {"type": "header", "text": _plain(title[:150])},
            *sections,
            {"type": "section", "text": closing},
        ],
    }


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _escaped(text: str) -> str:
    """Return a text in which nothing mentions anyone or is a link with another name, by Slack's rule and Markdown's.

    Who knows no blocks shows this as Markdown, where a letter that nobody sees parts what would be marks.
    """
    text = text.replace("@", f"@{_UNSEEN}").replace("](", f"]{_UNSEEN}(").replace("][", f"]{_UNSEEN}[")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
