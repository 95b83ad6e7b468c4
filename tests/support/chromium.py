"""Where Chromium is on this machine, if anywhere."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A private profile in a container, that asks nobody on the network for anything.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str | None:
    """Return the browser's path: `CHROMIUM`, else one on PATH, else playwright's own; None where there is none."""
    named = os.environ.get("CHROMIUM")
    if named:
        return shutil.which(named)
    for name in NAMES:
        if found := shutil.which(name):
            return found
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
    return str(own) if own.exists() else None
