"""How long `/time?last=50` takes beside `/steps?last=50`, on a site that runs, with the reference fleet in it.

usage: python -m benchmarks.time_answers [--url URL] [--access FILE] [--calls N]. The limit is twice `/steps`.
Calls of the two take turns, so that whatever else the machine does slows both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

LIMIT = 2.0
WARM_CALLS = 3


def main() -> None:
    """Measure each run of the site and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--access", type=Path, default=Path("var/access.json"), help="where the token stands")
    parser.add_argument("--calls", type=int, default=30, help="of each endpoint and run")
    options = parser.parse_args()
    base = f"{options.url}/api/v1/inspect"
    token = json.loads(options.access.read_text())["token"]
    print("| run | steps kept and live | `/steps?last=50` ms | `/time?last=50` ms | times (limit 2) |")
    print("|---|---:|---:|---:|---:|")
    for run in _get(f"{base}/runs", token)["results"]:
        path = f"{base}/runs/{quote(run['run_id'], safe='')}"
        steps, times = _medians(f"{path}/steps?last=50", f"{path}/time?last=50", token, options.calls)
        count = run["steps_completed"]
        print(f"| {run['run_id'][:40]} | {count:,} | {steps:.1f} | {times:.1f} | {times / steps:.2f} |")


def _medians(first: str, second: str, token: str, calls: int) -> tuple[float, float]:
    found: dict[str, list[float]] = {first: [], second: []}
    for number in range(WARM_CALLS + calls):
        for url, milliseconds in found.items():
            started = time.perf_counter()
            _get(url, token)
            if number >= WARM_CALLS:
                milliseconds.append((time.perf_counter() - started) * 1e3)
    return statistics.median(found[first]), statistics.median(found[second])


def _get(url: str, token: str) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Token {token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
