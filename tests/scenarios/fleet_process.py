"""One process of a reference fleet that is one of several on a site: its run ids begin with the name of its fleet.

    python -m tests.scenarios.fleet_process NAME RECORDS_URL CLOCK_AHEAD_SECONDS [flags of the fleet]

It works through REDIS_URL and records to RECORDS_URL, so that either can be slow or out without the other.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace


def main(name: str, records_url: str, clock_ahead_seconds: float, *flags: str) -> int:
    """Set the clock and rename the runs, have what is recorded sent to where it belongs, and be that process."""
    if clock_ahead_seconds:
        true_time = time.time
        time.time = lambda: true_time() + clock_ahead_seconds
    # Imported now: they take the clock with them.
    import workers_client
    from examples.reference_fleet.__main__ import main as fleet_main
    from examples.reference_fleet.runs import RUNS

    for plan_name, plan in RUNS.items():
        RUNS[plan_name] = replace(plan, run_id=f"{name}/{plan.run_id}")
    start = workers_client.start

    def start_on_records(role: str, **settings):
        return start(role, **{**settings, "redis_url": records_url})

    workers_client.start = start_on_records
    return fleet_main(list(flags))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), *sys.argv[4:]))
