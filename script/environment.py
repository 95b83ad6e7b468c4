"""The virtual environment that all commands share: made once, renewed when its requirements change.

Only with the standard library: nothing is installed yet.
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys
from typing import NoReturn

import redis_binary

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VIRTUALENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VIRTUALENV, "bin", "python")


def ensure(requirements: str, command: str) -> None:
    """Have a virtual environment with what a requirements file lists; at once where nothing changed."""
    # Two first starts at the same time would install into one folder.
    folder = os.open(os.path.join(ROOT, "script"), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if not _works(PYTHON):
            _make(command)
        fingerprint = _fingerprint(requirements)
        if not _is_installed(requirements, fingerprint):
            _install(requirements, command)
            with open(_stamp(requirements), "w") as stamp:
                stamp.write(fingerprint)
    finally:
        os.close(folder)


def continue_in_virtualenv(script: str) -> None:
    """Go on with the same script and arguments under the virtual environment's Python; returns there."""
    if os.path.realpath(sys.prefix) != os.path.realpath(VIRTUALENV):
        os.execv(PYTHON, [PYTHON, os.path.abspath(script), *sys.argv[1:]])


def refuse(command: str, sentence: str) -> NoReturn:
    """End the process with one sentence."""
    sys.exit(f"{command}: {sentence}")


def say(sentence: str) -> None:
    """Tell what takes a while."""
    print(sentence, flush=True)


def _make(command: str) -> None:
    say(f"Making the virtual environment {VIRTUALENV}.")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", VIRTUALENV], stdout=subprocess.PIPE)
    if made.returncode != 0:  # Debian's Python comes without ensurepip; its pip may be there all the same
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", VIRTUALENV], stdout=subprocess.PIPE)
    if not _works(PYTHON):
        refuse(command, f"{sys.executable} -m venv failed, as said above; it must be able to make {VIRTUALENV}.")


def _install(requirements: str, command: str) -> None:
    say(f"Installing {requirements}; the first time takes about a minute.")
    pip = _pip(command)
    install = [*pip, "install", "--quiet", "--disable-pip-version-check", "-r", os.path.join(ROOT, requirements)]
    if subprocess.run(install).returncode != 0:
        refuse(command, f"pip could not install {requirements}, as said above; it needs the package index.")
    redis_binary.ensure(pip, PYTHON, os.path.join(ROOT, "requirements.txt"))


def _pip(command: str) -> list[str]:
    own, outer = [PYTHON, "-m", "pip"], [sys.executable, "-m", "pip", "--python", PYTHON]
    for pip in (own, outer):
        if subprocess.run([*pip, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return pip
    return refuse(
        command,
        f"{sys.executable} has neither ensurepip nor pip, and must have one of them: install python3-venv (Debian, "
        "Ubuntu), or use another Python.",
    )


def _works(python: str) -> bool:
    try:
        return subprocess.run([python, "-c", ""], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def _fingerprint(requirements: str) -> str:
    """Return a hash of a requirements file, those it includes, and the Python they are for."""
    digest = hashlib.sha256(subprocess.check_output([PYTHON, "-VV"]))
    pending = [requirements]
    while pending:
        path = pending.pop()
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        digest.update(text.encode())
        included = re.findall(r"^-r (\S+)", text, re.MULTILINE)  # named from where the file stands
        pending += [os.path.normpath(os.path.join(os.path.dirname(path), name)) for name in included]
    return digest.hexdigest()


def _is_installed(requirements: str, fingerprint: str) -> bool:
    """Return whether the stamp of a file says so; what the site needs, those of the larger ones, which hold it, too."""
    if _read(_stamp(requirements)) == fingerprint:
        return True
    larger = ("requirements-dev.txt", "benchmarks/requirements.txt") if requirements == "requirements.txt" else ()
    return any(os.path.exists(os.path.join(ROOT, one)) and _read(_stamp(one)) == _fingerprint(one) for one in larger)


def _stamp(requirements: str) -> str:
    return os.path.join(VIRTUALENV, ".installed-" + requirements.replace(os.sep, "-"))


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
