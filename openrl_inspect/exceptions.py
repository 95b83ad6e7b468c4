"""What goes wrong, each with a sentence that says what to do and the exit status that scripts see."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """How `openrl-inspect` ends. `docs/command-line.md` lists them; scripts rely on the numbers."""

    OK = 0
    TROUBLE = 1  # with --check: what was looked at is in trouble
    WRONG_USE = 2  # click's own
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    NO_ANSWER = 5
    INTERRUPTED = 130


class InspectError(Exception):
    """An answer that can't be given. The message is for people and agents and says what to do."""

    status = ExitStatus.NO_ANSWER


class NotFoundError(InspectError):
    """The site has no such run or worker, or no such endpoint."""

    status = ExitStatus.NOT_FOUND


class AmbiguousIdError(NotFoundError):
    """A part of an id that several have."""


class NotAllowedError(InspectError):
    """No token, or one that the site refuses."""

    status = ExitStatus.NOT_ALLOWED


class RefusedError(InspectError):
    """The site refuses a parameter."""

    status = ExitStatus.WRONG_USE
