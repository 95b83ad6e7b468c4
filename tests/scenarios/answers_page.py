"""The page of docs with one answer of the running system for each state and finding, as situations brought it about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from telemetry_app.findings import Code
from telemetry_app.models import RunState
from tests.scenarios.running_fleet import Told

_HEAD = """# Verdicts of a running system

One answer of `GET /runs/{id}/verdict` for each state and finding, as real processes of the reference fleet brought it
about: [the verdict](verdict.md) says how each is decided. Made by `script/scenarios --fleet --answers`.
"""
_STATES = [state.value for state in RunState]
_TEXTS_SHOWN = 2


def answers_page(told: Iterable[Told]) -> str:
    """Return the page, of the first answer for each."""
    found = list(told)
    sections = [_state(state, found) for state in _STATES]
    sections += [_finding(code.value, found) for code in Code]
    return "\n".join(chain([_HEAD], *sections))


def _state(state: str, told: list[Told]) -> Iterator[str]:
    one = next((one for one in told if one.answer.get("state") == state), None)
    yield f"## {state}\n"
    if one is None:
        yield "No situation that was played has it.\n"
        return
    answer = one.answer
    yield f"{_name(one)}\n"
    yield from _items("says", answer["evidence"])
    expected = answer["expectation"]
    if expected and expected["percentile_95_seconds"] is not None:
        yield (
            f"- expected: 19 of 20 `{expected['operation']}` take {expected['percentile_95_seconds']:.3g} s at most "
            f"({expected['records_count']} records, basis `{expected['basis']}`); "
            f"overdue after {expected['limit_seconds']:.0f} s"
        )
    yield from _items("waits for", answer["chain"])
    yield from _items("against it", answer["counter_evidence"])
    if answer["also"]:
        yield "- also: " + ", ".join(f"`{other['state']}`" for other in answer["also"])
    for text in answer["next"][:_TEXTS_SHOWN]:
        yield f"- next: {_without_ids(text, answer)}"
    yield ""


def _finding(code: str, told: list[Told]) -> Iterator[str]:
    pairs = [(one, finding) for one in told for finding in one.answer.get("findings", ()) if finding["code"] == code]
    yield f"## {code}\n"
    if not pairs:
        yield "No situation that was played has it.\n"
        return
    one, finding = pairs[0]
    yield f"{_name(one)} The state is `{one.answer['state']}`.\n"
    yield from _items("says", [finding["evidence"]])
    shown = finding["evidence"]
    yield f"- shown by {len(shown['record_ids'])} records and {len(shown['request_ids'])} requests"
    yield ""


def _name(one: Told) -> str:
    return f"*{one.situation.replace('-', ' ').capitalize()}.*"


def _items(word: str, facts: Iterable[dict[str, Any]]) -> Iterator[str]:
    for fact in list(facts)[:_TEXTS_SHOWN]:
        yield f"- {word}: {fact['text']}"


def _without_ids(text: str, answer: dict[str, Any]) -> str:
    """Return a text without the run's id in addresses: it is long there."""
    for part in text.split():
        if part.startswith("/runs/") and len(part.split("/")) > 2:
            text = text.replace(part.split("/")[2], "{id}")
    return text
