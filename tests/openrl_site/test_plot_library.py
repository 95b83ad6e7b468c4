"""The plot library that a wheel brings is its authors' release, byte by byte, and pages let no other file in."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.template.loader import render_to_string

# Of the files in the authors' own package of version 1.6.31.
RELEASED = {
    "uplot.iife.min.js": "2d27e8ad3d228164525ce213f9dc716f39b4e3aee0cc773fb3491c96cf4921a2",
    "uplot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


@pytest.mark.parametrize("name", RELEASED)
def test_served_files_are_those_released(name: str) -> None:
    content = Path(str(finders.find(f"uplot/{name}"))).read_bytes()
    assert hashlib.sha256(content).hexdigest() == RELEASED[name]
    digest = base64.b64encode(hashlib.sha384(content).digest()).decode()
    tag = re.search(rf"<[^>]*{re.escape(name)}[^>]*>", render_to_string("telemetry_app/plot_scripts.html"))
    assert tag
    assert f'integrity="sha384-{digest}"' in tag[0]
