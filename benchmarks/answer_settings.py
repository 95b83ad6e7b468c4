"""The site's settings, with one path more: an empty answer, which any view costs at least."""

from __future__ import annotations

from openrl_site.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks.answer_urls"
REST_FRAMEWORK = {**globals()["REST_FRAMEWORK"], "DEFAULT_THROTTLE_CLASSES": []}  # one caller asks as fast as it can
