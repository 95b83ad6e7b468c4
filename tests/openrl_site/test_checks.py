"""Settings that contradict each other."""

import pytest
from django.core.checks import run_checks


def _found(*, deploy=False):
    return {message.id: message.msg for message in run_checks(include_deployment_checks=deploy)}


def test_default_settings_are_consistent():
    assert _found() == {}


def test_retention_must_outlast_the_snapshot_interval(settings):
    settings.TELEMETRY_RETENTION_DAYS, settings.TELEMETRY_SNAPSHOT_INTERVAL_SECONDS = 1, 86_400
    assert "TELEMETRY_RETENTION_DAYS=1 must be longer than" in _found()["openrl_site.E001"]


def test_task_limit_must_be_below_the_visibility_timeout(settings):
    settings.CELERY_TASK_TIME_LIMIT = 600
    assert "CELERY_TASK_TIME_LIMIT=600 must be below" in _found()["openrl_site.E002"]


def test_cache_must_not_share_the_database_of_records(settings):
    settings.CACHES = {**settings.CACHES, "default": settings.CACHES["telemetry"]}
    assert "CACHE_URL must name another database" in _found()["openrl_site.E003"]


@pytest.mark.parametrize(("behind_tls", "warned"), [(False, True), (True, False)])
def test_others_are_let_in_only_behind_tls(settings, behind_tls, warned):
    settings.ALLOWED_HOSTS = ["localhost", "telemetry.example"]
    settings.BEHIND_TLS = behind_tls
    assert ("openrl_site.W001" in _found(deploy=True)) is warned
