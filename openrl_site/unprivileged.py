"""Ways for a child to be somebody else: PostgreSQL refuses to run as root, and as a user without a name.

Neither way needs a new user or opens a folder to others. A user namespace keeps all files root's, but containers often
forbid it; giving root up in favour of `nobody` works there, with the one capability kept that lets it reach binaries
and data inside root's private folders.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from openrl_site.exceptions import SetUpError

NOBODY = 65534
_CLONE_NEWUSER = 0x10000000
_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAP_DAC_OVERRIDE = 1
_CAPABILITY_VERSION_3 = 0x20080522
_CAPSET_NUMBERS = {"x86_64": 126, "aarch64": 91}  # glibc and musl have no function for it
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Identity:
    """How a child becomes who it runs as, and the user id that must own its data."""

    become: Callable[[], None]
    owner: int


def unprivileged_identity(probe: Sequence[str]) -> Identity:
    """Return the identity for a program that refuses root and users without a name: our own unless we are such.

    Args:
        probe: a command of the program that ends at once with 0, to try each way with.

    Raises:
        SetUpError: we are, and no way out of it works here.
    """
    user = os.geteuid()
    if user != 0 and _has_name(user):
        return Identity(become=_stay, owner=user)
    ways = [Identity(_enter_user_namespace, owner=user)]
    if user == 0:
        ways.append(Identity(_become_nobody, owner=NOBODY))
    for identity in ways:
        if _works(probe, identity):
            return identity
    raise SetUpError(
        f"PostgreSQL refuses to run as user {user}, which is root or has no name, and no way to run it as another was "
        "found (a user namespace, or nobody): run this as an ordinary user, or set DATABASE_URL."
    )


def give_to(owner: int, folder: Path) -> None:
    """Make a folder and all below belong to a user id, where we are root and it belongs to another."""
    if os.geteuid() != 0 or not folder.exists() or folder.stat().st_uid == owner:
        return
    for path in [*folder.rglob("*"), folder]:  # the folder last: a change cut short is seen and done again
        os.chown(path, owner, -1, follow_symlinks=False)


def _has_name(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:  # as in containers that run under a number of the host's choice
        return False
    return True


def _works(probe: Sequence[str], identity: Identity) -> bool:
    try:
        return subprocess.run(probe, preexec_fn=identity.become, capture_output=True).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _stay() -> None:
    pass


def _enter_user_namespace() -> None:
    """Become nobody inside a user namespace without mappings; outside of it the files stay root's."""
    if _LIBC is None or _LIBC.unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "no user namespace")


def _become_nobody() -> None:
    """Give up root for nobody, keeping only the right to reach files in folders of others."""
    if _LIBC is None:
        raise OSError("only Linux can keep a capability")
    _LIBC.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    mask = 1 << _CAP_DAC_OVERRIDE
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION_3, 0))
    sets = ctypes.create_string_buffer(struct.pack("6I", mask, mask, mask, 0, 0, 0))
    if _LIBC.syscall(_CAPSET_NUMBERS[os.uname().machine], header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    if _LIBC.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "ambient capability")
