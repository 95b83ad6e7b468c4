"""What was answered of one run's sampling requests between two flushes."""

from __future__ import annotations

from typing import Any


class SamplingWindow:
    """Open requests and the sums of the answered ones. Instants are unix seconds."""

    def __init__(self) -> None:
        self.open_count = self.count = self.tokens_sum = 0
        self.busy_since = self.busy_seconds = 0.0
        self.idle_since: float | None = None  # when the last open request was answered
        self.first_accepted_at: float | None = None
        self.first_answered_at = self.last_answered_at = 0.0
        self.seconds_sum = self.seconds_max = 0.0

    def accept(self, accepted_at: float, at: float) -> None:
        """One more request is open: since it was accepted, which another process may have done a moment before."""
        if self.open_count == 0:
            self.busy_since = at if self.idle_since is None else max(self.idle_since, min(accepted_at, at))
        self.open_count += 1

    def release(self, at: float) -> None:
        """One request less is open, however it was answered."""
        if self.open_count == 0:
            return
        self.open_count -= 1
        if self.open_count == 0:
            self.idle_since = at
            self.busy_seconds += max(0.0, at - self.busy_since)

    def answer(self, accepted_at: float | None, at: float, tokens: int) -> None:
        """Count one answered request; its seconds run from its acceptance, where that is known."""
        if self.count == 0:
            self.first_answered_at = at
        self.count += 1
        self.last_answered_at = max(self.last_answered_at, at)
        self.tokens_sum += tokens
        if accepted_at is not None:
            earlier = accepted_at if self.first_accepted_at is None else min(self.first_accepted_at, accepted_at)
            self.first_accepted_at = earlier
            seconds = max(0.0, at - accepted_at)
            self.seconds_sum += seconds
            self.seconds_max = max(self.seconds_max, seconds)

    def close(self, now: float) -> dict[str, Any] | None:
        """Return the group of the window that ends now, or None where nothing was answered; begin the next."""
        if self.count == 0:
            return None
        busy = self.busy_seconds
        if not self.open_count:
            self.idle_since = now
        else:
            busy += max(0.0, now - self.busy_since)
            self.busy_since = now
        group = {
            "kind": "group",
            "count": self.count,
            "first_answered_at": self.first_answered_at,
            "at": self.last_answered_at,
            "seconds_sum": self.seconds_sum,
            "seconds_max": self.seconds_max,
            "tokens_sum": self.tokens_sum,
            "busy_seconds": busy,
        }
        if self.first_accepted_at is not None:
            group["first_accepted_at"] = self.first_accepted_at
        self.busy_seconds = self.seconds_sum = self.seconds_max = 0.0
        self.count = self.tokens_sum = 0
        self.first_accepted_at = None
        return group
