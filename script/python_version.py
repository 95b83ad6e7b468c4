"""Refuses a Python that is too old; imported before all else, so it must run under any Python 3."""

import platform
import sys

OLDEST = (3, 11)


def refuse_old(command: str) -> None:
    """End the process with a sentence where this Python is too old for the project."""
    if sys.version_info[:2] < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        sys.exit(
            f"{command}: Python {platform.python_version()} ({sys.executable}) is too old; it must be {wanted} or "
            f"newer: run it with one, as in `python{wanted} {command}`."
        )
