"""The stretch of time that a page of GPUs shows: a word such as `week`, or two instants, in the page's address."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from telemetry_app.api.parameters import Parameters
from telemetry_app.device_share import DAY_SECONDS
from telemetry_app.exceptions import InvalidQueryError
from telemetry_app.instants import to_unix

SPANS = {
    "hour": ("last hour", 3_600.0),
    "day": ("last day", DAY_SECONDS),
    "week": ("last 7 days", 7 * DAY_SECONDS),
    "month": ("last 30 days", 30 * DAY_SECONDS),
}
DEFAULT_SPAN = "day"
_WITHOUT_OFFSET = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?\Z")  # as a form field sends it: in UTC


@dataclass(frozen=True, slots=True)
class ChosenSpan:
    """What the address asks for. With a `word`, it ends now; otherwise instants in unix seconds, None where missing.

    `query` are the parameters that say the same; `fault` is the sentence about what could not be used.
    """

    word: str = DEFAULT_SPAN
    since: float | None = None
    until: float | None = None
    query: dict[str, str] = field(default_factory=dict)
    fault: str = ""

    @property
    def span_seconds(self) -> float:
        """How long it is, where it is not said since when."""
        return SPANS[self.word or DEFAULT_SPAN][1]


def chosen_span(query: QueryDict) -> ChosenSpan:
    """Return the stretch that an address asks for; the last day where what it says can't be used."""
    texts = {name: _with_offset(str(query[name])) for name in ("since", "until") if query.get(name)}
    if not texts:
        word = query.get("span", DEFAULT_SPAN)
        return ChosenSpan(word, query={"span": word}) if word in SPANS else ChosenSpan()
    given = QueryDict(mutable=True)
    given.update(texts)
    try:
        instants: dict[str, Any] = {name: to_unix(Parameters(given, texts).instant(name)) for name in texts}
    except InvalidQueryError as error:
        return ChosenSpan(fault=f"{error} The last day is shown instead.")
    return ChosenSpan("", instants.get("since"), instants.get("until"), texts)


def _with_offset(text: str) -> str:
    return f"{text}Z" if _WITHOUT_OFFSET.match(text) else text
