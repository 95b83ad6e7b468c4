"""Installs Chromium where it is missing: the system's package where we may, else the build that playwright has."""

import os
import shutil
import subprocess
import sys

import environment

sys.path.insert(0, environment.ROOT)

from tests.support.chromium import find_chromium


def ensure(command: str) -> None:
    """Have Chromium, or end the process with a sentence."""
    if find_chromium():
        return
    environment.say("Installing Chromium.")
    ways = [[sys.executable, "-m", "playwright", "install", *(["--with-deps"] if _may_use_apt() else []), "chromium"]]
    if _may_use_apt():
        ways.insert(0, ["sh", "-c", "apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium"])
    for way in ways:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        if subprocess.run(way, env=quiet, stdout=subprocess.DEVNULL).returncode == 0 and find_chromium():
            return
    environment.refuse(
        command,
        "Chromium could be installed neither by apt-get nor by playwright, as said above: install it, or name one "
        "with CHROMIUM=/path/to/chromium.",
    )


def _may_use_apt() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None
