"""The schedule of snapshot and retention, in the theme's own clothes."""

from __future__ import annotations

from django.contrib import admin
from django_celery_beat.admin import ClockedScheduleAdmin as BeatClockedScheduleAdmin
from django_celery_beat.admin import CrontabScheduleAdmin as BeatCrontabScheduleAdmin
from django_celery_beat.admin import PeriodicTaskAdmin as BeatPeriodicTaskAdmin
from django_celery_beat.admin import PeriodicTaskForm, TaskSelectWidget
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

for _model in (PeriodicTask, IntervalSchedule, CrontabSchedule, SolarSchedule, ClockedSchedule):
    admin.site.unregister(_model)


class _TaskSelectWidget(UnfoldAdminSelectWidget, TaskSelectWidget):
    """The list of known tasks."""


class _PeriodicTaskForm(PeriodicTaskForm):
    """The form of a periodic task with the theme's inputs."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.fields["task"].widget = UnfoldAdminTextInputWidget()
        self.fields["regtask"].widget = _TaskSelectWidget()


@admin.register(PeriodicTask)
class PeriodicTaskAdmin(BeatPeriodicTaskAdmin, ModelAdmin):
    """What runs when."""

    form = _PeriodicTaskForm
    change_form_template = None  # its own has an inline script, which the pages' policy refuses


@admin.register(IntervalSchedule)
class IntervalScheduleAdmin(ModelAdmin):
    """Every so many seconds, minutes, hours or days."""


@admin.register(CrontabSchedule)
class CrontabScheduleAdmin(BeatCrontabScheduleAdmin, ModelAdmin):
    """At set times."""


@admin.register(SolarSchedule)
class SolarScheduleAdmin(ModelAdmin):
    """At sunrise and the like."""


@admin.register(ClockedSchedule)
class ClockedScheduleAdmin(BeatClockedScheduleAdmin, ModelAdmin):
    """Once."""
