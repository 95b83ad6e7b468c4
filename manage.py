#!/usr/bin/env python3
"""Django's command line. Finds the embedded PostgreSQL and Redis that run, or starts them for as long as it lasts."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run one management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openrl_site.settings")
    # Imported late: a virtual environment that lacks Django must fail with Django's own sentence.
    from django.core.management import execute_from_command_line

    from openrl_site.embedded import servers_for_command

    with servers_for_command(sys.argv):
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
