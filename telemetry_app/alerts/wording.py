"""What a message says, in words: for people who read e-mail or chat. Pure: the content in, texts out.

Ids and causes come from workers and may hold anything: each stands on one line, without what controls headers,
terminals or the direction of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from telemetry_app.alerts.outcomes import one_line
from telemetry_app.plain_words import in_words, span_words

TITLE_LENGTH = 150
TEXT_LENGTH = 400
ID_LENGTH = 256
SHOWN_IDS = 5


def title_line(content: Mapping[str, Any]) -> str:
    """Return the title on one line."""
    return one_line(content["title"], TITLE_LENGTH)


def paragraphs(content: Mapping[str, Any]) -> list[list[str]]:
    """Return the message below its title: paragraphs of lines, without links."""
    if content["event"] == "test":
        return [["This is a test: the channel works. Nothing is wrong."]]
    incidents = content["incidents"]
    if content["incidents_count"] > 1:
        more = content["more_count"]
        lines = [f"- {_short(incident)}" for incident in incidents]
        return [[*lines, *([f"- and {more} more"] if more else [])]]
    return [part for incident in incidents for part in _whole(incident, content["verdict"]) if part]


def links(content: Mapping[str, Any]) -> dict[str, str]:
    """Return where to go on, by what it is: an incident and its run, or the list. Empty without the site's own URL."""
    if not content["link"]:
        return {}
    if content["incidents_count"] != 1 or not content["incidents"]:
        return {"Incidents": content["link"]}
    run = content["incidents"][0].get("run_link")
    return {"Incident": content["link"], **({"Run": run} if run else {})}


def link_lines(content: Mapping[str, Any]) -> list[str]:
    """Return where to go on, or what is missing for that."""
    found = [f"{what}: {link}" for what, link in links(content).items()]
    return found or ["No link: the site does not know its own URL (TELEMETRY_SITE_URL)."]


def run_words(incident: Mapping[str, Any]) -> str:
    """Return what people call a run, with its id."""
    run_id, name = one_line(incident["run_id"], ID_LENGTH), one_line(incident["run_name"], ID_LENGTH)
    return f"{name} ({run_id})" if name else run_id


def instant_words(instant: str) -> str:
    """Return an instant (RFC 3339, UTC) to the second."""
    return f"{instant[:10]} {instant[11:19]} UTC"


# --- Parts ----------------------------------------------------------------------------------------------------
def _short(incident: Mapping[str, Any]) -> str:
    code = in_words(incident["code"])
    when = instant_words(incident["ended_at"] or incident["started_at"])
    word = "ended" if incident["ended_at"] else "since"
    return f"{code}: {run_words(incident)}, {word} {when}: {one_line(incident['cause'], TITLE_LENGTH)}"


def _whole(incident: Mapping[str, Any], verdict: Mapping[str, Any] | None) -> Iterator[list[str]]:
    code, started = in_words(incident["code"]), instant_words(incident["started_at"])
    span = span_words(incident["for_seconds"])
    yield [f"Run: {run_words(incident)}", f"What: {code}", _when(incident, started, span)]
    yield ["Evidence:", *_facts(incident["evidence"])] if incident["evidence"] else [one_line(incident["cause"])]
    if verdict is None:
        return
    if "unknown" in verdict:
        yield [f"The verdict on the run is not known: {one_line(verdict['unknown'], TEXT_LENGTH)}"]
        return
    yield [f"The run now: {in_words(verdict['state'])}", *_facts(verdict["evidence"])]
    if verdict["counter_evidence"] and not incident["ended_at"]:
        yield ["What speaks against it:", *_facts(verdict["counter_evidence"])]
    if verdict["next"] and not incident["ended_at"]:
        yield ["What you can safely do:", *(f"- {one_line(step, TEXT_LENGTH)}" for step in verdict["next"])]


def _when(incident: Mapping[str, Any], started: str, span: str) -> str:
    again = f", came back {incident['reopened_count']} times" if incident["reopened_count"] else ""
    if incident["ended_at"]:
        return f"Ended: {instant_words(incident['ended_at'])}, after {span} (since {started}){again}"
    return f"Since: {started}, for {span}{again}"


def _facts(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"- {one_line(fact['text'], TEXT_LENGTH)}{_ids(fact)}" for fact in facts]


def _ids(fact: Mapping[str, Any]) -> str:
    found = []
    for word, ids in (("records", fact.get("record_ids") or ()), ("requests", fact.get("request_ids") or ())):
        if ids:
            shown = ", ".join(one_line(str(each), ID_LENGTH) for each in ids[:SHOWN_IDS])
            found.append(f"{word} {shown}" + (f" and {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else ""))
    return f" [{'; '.join(found)}]" if found else ""
