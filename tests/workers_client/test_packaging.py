"""What `pip install .` gives: `workers_client`, typed, with redis-py as its one dependency, quick to import.

Beside it lies `openrl_inspect`, whose libraries come with an extra alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import tomllib

from tests.support.workers import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORT_TIMES = """
import subprocess, sys, time
def seconds(line):
    started = time.perf_counter()
    subprocess.run([sys.executable, "-S", "-c", line], check=True)
    return time.perf_counter() - started
prepare = "import sys; sys.path[:0] = {path!r}; "
lines = (prepare, prepare + "import workers_client", prepare + "import redis")
pairs = [[seconds(line) for line in lines] for _ in range(5)]
ours, peers = [sorted(pair[place] - pair[0] for pair in pairs)[2] for place in (1, 2)]
print(ours / peers)
"""


def test_the_packages_are_the_client_and_the_command_line_both_typed() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "openrl_inspect").rglob("*.py")}
    assert set(built["packages"]) == {"workers_client", *(".".join(folder.parts) for folder in folders)}
    for package in ("workers_client", "openrl_inspect"):
        assert built["package-data"][package] == ["py.typed"]
        assert (ROOT / package / "py.typed").exists()


def test_redis_is_the_one_dependency() -> None:
    assert [name.split(">")[0] for name in PROJECT["dependencies"]] == ["redis"]
    assert PROJECT["requires-python"] == ">=3.10"


def test_nothing_but_the_standard_library_and_redis_is_needed() -> None:
    # Everything else that is installed is hidden; msgspec, which is used where it is installed, with it.
    source = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['msgspec', 'django', 'numpy', 'celery', 'psycopg', 'hiredis']))\n"
        "import workers_client, workers_client.wire_worker\n"
        "from workers_client.codec import encode_object\n"
        "print(encode_object({'a': 1.5}))"
    )
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr(b'{"a":1.5}')


def test_importing_loads_none_of_the_slow_modules() -> None:
    # Each of them takes about as long as all of the rest.
    slow = ("asyncio", "dataclasses", "inspect", "json", "logging", "msgspec", "redis", "ssl", "uuid")
    source = f"import sys; sys.path[:0] = {sys.path!r}; import workers_client; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-S", "-c", source], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(slow) & set(done.stdout.split()) == set()


def test_without_its_extra_the_command_line_says_what_to_install() -> None:
    source = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['click', 'rich', 'httpx2']))\n"
        "from openrl_inspect.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("install it with `pip install 'workers-client[inspect]'`.")
    assert len(done.stderr.splitlines()) == 1


def test_the_extras_name_what_the_command_line_imports() -> None:
    extras = PROJECT["optional-dependencies"]
    named = {extra: {name.split(">")[0] for name in extras[extra]} for extra in ("inspect", "mcp", "parquet")}
    assert named == {"inspect": {"click", "rich", "httpx2"}, "mcp": {"mcp"}, "parquet": {"pyarrow"}}
    assert PROJECT["scripts"] == {"openrl-inspect": "openrl_inspect.__main__:main"}


def test_importing_costs_a_small_part_of_importing_redis(tmp_path: Path) -> None:
    path = [str(ROOT), *(entry for entry in sys.path if entry.endswith("site-packages"))]
    source = IMPORT_TIMES.replace("{path!r}", repr(path))
    cached = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}  # as where installed
    done = subprocess.run([sys.executable, "-c", source], env=cached, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.5
