"""How one attempt to send ended, and when the next one is due. Pure."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum

MOST_ATTEMPTS = 12
FIRST_WAIT_SECONDS = 10.0
MOST_WAIT_SECONDS = 900.0
ANSWER_LENGTH = 300


class Outcome(StrEnum):
    """How an attempt ended, by what it means for the next one."""

    DELIVERED = "delivered"
    FAILED = "failed"  # it did not arrive, and may the next time
    REFUSED = "refused"  # it did not arrive, and never will
    IN_DOUBT = "in doubt"  # it was sent and not answered: it may have arrived


@dataclass(frozen=True, slots=True)
class Answer:
    """What an attempt came to. `retry_after_seconds`: what the receiver asks to wait."""

    outcome: Outcome
    text: str
    retry_after_seconds: float | None = None


def wait_seconds(attempts_count: int, jitter: float, retry_after_seconds: float | None = None) -> float:
    """Return the seconds until the next attempt: 10, 20, 40, … 900, less up to a fifth by `jitter` (0 to 1).

    A receiver that asks for a longer wait gets it, up to 900 s.
    """
    doubled = FIRST_WAIT_SECONDS * 2.0 ** min(attempts_count - 1, 30)
    wait = min(doubled, MOST_WAIT_SECONDS) * (1.0 - 0.2 * jitter)
    return max(wait, min(retry_after_seconds or 0.0, MOST_WAIT_SECONDS))


def one_line(text: str, length: int = ANSWER_LENGTH) -> str:
    """Return a text on one line, cut to a length: what controls a terminal, a header or the direction of text goes."""
    spaced = "".join(
        " " if char.isspace() or unicodedata.category(char) == "Cc" else char for char in text[: 8 * length]
    )
    plain = "".join(char for char in spaced if char not in _DIRECTIONS)
    words = " ".join(plain.split())
    return words if len(words) <= length else f"{words[: length - 1]}…"


_DIRECTIONS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
