"""`script/test` without a browser."""

import os
import subprocess
import sys

from tests.support.running_site import ROOT

PAGES, OTHERS = "tests/openrl_site/test_sign_in.py", "tests/openrl_site/test_redis_urls.py"


def test_closing_lines_name_what_did_not_run_and_nothing_counts_as_skipped():
    done = subprocess.run(
        [sys.executable, "script/test", PAGES, OTHERS],
        cwd=ROOT,
        env={**os.environ, "CHROMIUM": "/nowhere/chromium"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *before, closing = done.stdout.strip().splitlines()
    assert f"did not run: {PAGES}::test_admin_signs_in_with_user_and_password" in before
    assert "2 deselected" in closing
    assert "skipped" not in closing
