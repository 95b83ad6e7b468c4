"""The errors of setting the site up; each message is the one sentence its user needs."""

from __future__ import annotations


class SetUpError(Exception):
    """Something the site needs is not as it must be; the message names the value and the rule."""
