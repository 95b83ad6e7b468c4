"""Where data and servers are: under `var/` and embedded, unless the environment names others."""

from __future__ import annotations

import os
import secrets
from importlib.util import find_spec
from pathlib import Path

from openrl_site.private_files import read_json

PROJECT_ROOT = Path(__file__).resolve().parent.parent
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]", ".localhost")
_NOT_RUNNING = "nothing-runs"  # a name no server has: connecting to it fails at once and says so


def var_dir() -> Path:
    """Return the folder of all data; `VAR_DIR` puts another in place of the project's `var/`."""
    named = os.environ.get("VAR_DIR")
    return Path(named).resolve() if named else PROJECT_ROOT / "var"


def state_file(folder: Path) -> Path:
    """Return the file in which running embedded servers stand: `{"pid", "identity", "database_url", "redis_url"}`."""
    return folder / "servers.json"


def access_file(folder: Path) -> Path:
    """Return the file that says how to sign in, and where: written by the server for its user and for tools."""
    return folder / "access.json"


def plot_library() -> Path:
    """Return the folder of uPlot's own files, as a wheel brings them: found, never imported.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    package = find_spec("youplot")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("youplot, which brings uPlot for the plots, is not installed: see requirements.txt")
    return Path(package.submodule_search_locations[0]) / "vendor"


def database_url() -> str:
    """Return `DATABASE_URL`, else the embedded server's that runs, else a URL that fails to connect."""
    running = read_json(state_file(var_dir())).get("database_url")
    return os.environ.get("DATABASE_URL") or running or f"postgresql:///{_NOT_RUNNING}?host=/{_NOT_RUNNING}"


def redis_url() -> str:
    """Return `REDIS_URL`, else the embedded server's that runs, else a URL that fails to connect."""
    running = read_json(state_file(var_dir())).get("redis_url")
    return os.environ.get("REDIS_URL") or running or f"unix:///{_NOT_RUNNING}?db=0"


def kept_secret_key() -> str:
    """Return the secret key kept in `var/secret_key` (mode 0600), made at first use."""
    path = var_dir() / "secret_key"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    if not path.exists():
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
        try:
            os.link(fresh, path)  # the first of several processes wins, and all read the same key
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text()
