"""The schedule of snapshot and retention, in the theme's own clothes."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.text import capfirst
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
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from telemetry_app.templatetags.telemetry import ago, badge, figure

for _model in (PeriodicTask, IntervalSchedule, CrontabSchedule, SolarSchedule, ClockedSchedule):
    admin.site.unregister(_model)


_HELP = {
    "name": "What it is called here.",
    "regtask": "One of those that this site knows; empty: the one named below.",
    "task": "The name of what runs.",
    "enabled": "Off: it does not run by itself.",
    "description": "For whoever reads this later.",
}


class _TaskSelectWidget(UnfoldAdminSelectWidget, TaskSelectWidget):
    """The list of known tasks."""


class _PeriodicTaskForm(PeriodicTaskForm):
    """The form of a periodic task with the theme's inputs, and words for whoever does not know Celery."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.fields["task"].widget = UnfoldAdminTextInputWidget()
        self.fields["regtask"].widget = _TaskSelectWidget()
        for field in self.fields.values():
            field.label = capfirst(str(field.label or "").lower())
        self.fields["regtask"].label, self.fields["task"].label = "Change the task to", "Task"
        for name, help_text in _HELP.items():
            self.fields[name].help_text = help_text


@admin.register(PeriodicTask)
class PeriodicTaskAdmin(BeatPeriodicTaskAdmin, ModelAdmin):
    """What runs when."""

    form = _PeriodicTaskForm
    list_display = ("name", "shown_enabled", "shown_schedule", "shown_last_run", "shown_count")
    list_filter = ("enabled", "task")
    search_help_text = "Any part of a name or a task"
    date_hierarchy = None
    change_form_template = None  # its own has an inline script, which the pages' policy refuses

    @display(description="Runs by itself", ordering="enabled")
    def shown_enabled(self, task: PeriodicTask) -> SafeString:
        """Whether it does."""
        return badge("enabled" if task.enabled else "off")

    @display(description="When")
    def shown_schedule(self, task: PeriodicTask) -> str:
        """Its schedule in words; times of day are UTC unless it says otherwise."""
        times = "" if task.crontab is None else f"{task.crontab.human_readable}"
        return f"{times or task.scheduler}{', once' if task.one_off else ''}"

    @display(description="Last run", ordering="last_run_at")
    def shown_last_run(self, task: PeriodicTask) -> SafeString:
        """When beat queued it last, as it notes from time to time."""
        return ago(task.last_run_at)

    @display(description="Runs so far", ordering="total_run_count")
    def shown_count(self, task: PeriodicTask) -> str:
        """How often it was queued."""
        return figure(task.total_run_count)


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
