"""Where answers go: as tables to a terminal, as JSON to a file or a pipe."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console

# What steers a terminal or turns the order of letters, beyond what JSON escapes anyway.
_STEERING = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
PIPED_WIDTH = 160  # columns of a table that goes to no terminal


class _Console(Console):
    """A console that tells of a broken pipe as Python does: rich would end with status 1, which means trouble."""

    def on_broken_pipe(self) -> None:
        """Raise it again."""
        raise BrokenPipeError


class Output:
    """How one command answers. `is_json` None is by what standard output is."""

    def __init__(self, is_json: bool | None) -> None:
        self.is_json = not sys.stdout.isatty() if is_json is None else is_json
        is_sized = sys.stdout.isatty() or os.environ.get("COLUMNS")
        self.console = _Console(highlight=False, markup=False, emoji=False, width=None if is_sized else PIPED_WIDTH)

    def show(self, answer: Any, render: Callable[[Console], None]) -> None:
        """Write an answer in the way that is wanted. Who closed the pipe early has enough: the command goes on."""
        try:
            if self.is_json:
                self.line(answer, indent=2)
            else:
                render(self.console)
        except BrokenPipeError:
            stop_writing()

    def line(self, answer: Any, indent: int | None = None) -> None:
        """Write an answer as JSON, which may be shown on a terminal as it is."""
        text = json.dumps(answer, indent=indent, ensure_ascii=False)
        sys.stdout.write(_STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
        sys.stdout.flush()


def stop_writing() -> None:
    """Let standard output lead nowhere, so that no later word and no flush at the end meets the broken pipe again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
