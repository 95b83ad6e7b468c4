"""Start of `openrl-inspect`. Says what to install where the extra is missing; everything else is in `program.py`."""

from __future__ import annotations

import sys

NEEDED = ("click", "rich", "httpx2")


def main() -> None:
    """Run the command line."""
    try:
        # Not above: without the extra these are not installed, and that must be one sentence.
        from openrl_inspect.program import program
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        sys.exit(f"openrl-inspect needs {error.name}: install it with `pip install 'workers-client[inspect]'`.")
    program(prog_name="openrl-inspect")


if __name__ == "__main__":
    main()
