"""The periodic tasks: there after the first migration, then the operator's."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db.models.signals import post_migrate
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from openrl_site.celery import app
from telemetry_app import schedule

pytestmark = pytest.mark.django_db


def migrate_again():
    """Send what a migration sends at its end."""
    config = apps.get_app_config("telemetry_app")
    post_migrate.send(sender=config, app_config=config, verbosity=0, interactive=False, using="default")


@pytest.fixture
def snapshot_task():
    migrate_again()
    return PeriodicTask.objects.get(task="telemetry_app.snapshot")


@pytest.fixture
def retention_task():
    migrate_again()
    return PeriodicTask.objects.get(task="telemetry_app.retention")


def test_a_snapshot_is_due_every_few_seconds(snapshot_task, settings):
    assert (snapshot_task.interval.every, snapshot_task.interval.period) == (10, "seconds")
    assert snapshot_task.enabled
    assert snapshot_task.expire_seconds == settings.TELEMETRY_SNAPSHOT_INTERVAL_SECONDS


def test_retention_is_due_once_a_day_in_utc(retention_task):
    crontab = retention_task.crontab
    assert (crontab.minute, crontab.hour, crontab.day_of_week, str(crontab.timezone)) == ("15", "3", "*", "UTC")
    assert retention_task.enabled


def test_what_an_operator_changed_survives_a_migration(snapshot_task, retention_task):
    snapshot_task.interval = IntervalSchedule.objects.create(every=45, period="seconds")
    snapshot_task.name, snapshot_task.enabled = "Mine", False
    snapshot_task.save()
    retention_task.crontab = CrontabSchedule.objects.create(hour="5")
    retention_task.save()
    migrate_again()
    snapshot_task.refresh_from_db()
    retention_task.refresh_from_db()
    assert (snapshot_task.name, snapshot_task.enabled, snapshot_task.interval.every) == ("Mine", False, 45)
    assert retention_task.crontab.hour == "5"
    assert PeriodicTask.objects.filter(task__startswith="telemetry_app.").count() == 5


def test_a_task_that_was_removed_comes_back(snapshot_task):
    snapshot_task.delete()
    migrate_again()
    assert PeriodicTask.objects.filter(task="telemetry_app.snapshot").count() == 1


def test_an_interval_that_exists_already_is_shared(snapshot_task):
    PeriodicTask.objects.filter(task="telemetry_app.snapshot").delete()
    before = IntervalSchedule.objects.count()
    migrate_again()
    assert IntervalSchedule.objects.count() == before


@pytest.mark.parametrize(
    "name",
    [
        schedule.SNAPSHOT_TASK,
        schedule.VERDICTS_TASK,
        schedule.ALERTS_TASK,
        schedule.HEARTBEAT_TASK,
        schedule.RETENTION_TASK,
    ],
)
def test_the_tasks_that_are_due_are_those_that_workers_know(name):
    app.loader.import_default_modules()
    assert name in app.tasks


def test_models_and_migrations_agree(capsys):
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    assert capsys.readouterr().out == ""
