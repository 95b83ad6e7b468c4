"""The Python interpreters of this machine that the client supports, with what it needs to run in each."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

SUPPORTED = ("3.10", "3.11", "3.12", "3.13")
_ROOT = Path(__file__).resolve().parents[2]


def present_interpreters() -> dict[str, str]:
    """Return the path of an interpreter by its version: this one, and those found on PATH and under pyenv."""
    found = {}
    for version in SUPPORTED:
        for path in (shutil.which(f"python{version}"), *_of_pyenv(version)):
            if path is not None and _runs(path, version):
                found[version] = path
    return {**found, f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}


def python_path(folder: Path) -> str:
    """Return a PYTHONPATH that holds this project and redis-py, which is pure Python, and nothing else.

    Before Python 3.11.3 redis-py wants async_timeout, which it needs for asyncio alone; an empty one stands in.
    """
    spec = importlib.util.find_spec("redis")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    link = folder / "redis"
    if not link.exists():
        link.symlink_to(spec.submodule_search_locations[0])
        (folder / "async_timeout.py").write_text("timeout = None\n")
    return f"{_ROOT}{os.pathsep}{folder}"


def _of_pyenv(version: str) -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return [str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python"))]


def _runs(path: str, version: str) -> bool:
    """Return whether it is that version: a name on PATH may be a shim that leads nowhere."""
    line = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-I", "-c", line], capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.strip() == version
