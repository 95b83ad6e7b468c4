"""How pages write ages, durations, numbers and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django import template
from django.contrib.admin.utils import quote
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.safestring import SafeString

from telemetry_app.findings import Code
from telemetry_app.health import Health
from telemetry_app.models import RunState
from telemetry_app.plain_words import in_words, span_words
from telemetry_app.sparkline import HEIGHT, WIDTH, sparkline_points

register = template.Library()

# Tones say how bad a word is; each state has its word and a mark of its own, so that colour never stands alone.
_TONES = {
    RunState.LOST.value: "bad", RunState.STUCK.value: "bad", RunState.FAILING.value: "bad",
    RunState.DIVERGING.value: "bad", RunState.WAITING_FOR_GPU.value: "wait", RunState.QUEUED.value: "wait",
    RunState.SAMPLING.value: "good", RunState.PROGRESSING.value: "good", RunState.WAITING_FOR_CLIENT.value: "calm",
    RunState.IDLE.value: "calm", RunState.FINISHED.value: "calm",
    Health.ALIVE.value: "good", Health.LATE.value: "wait", Health.LOST.value: "bad", Health.EXITED.value: "calm",
    "unknown": "wait", "in doubt": "wait", "refused": "bad", "queued": "wait", "sending": "wait", "sent": "good",
    "delivered": "good", "active": "good", "enabled": "good", "muted": "wait", "open": "wait",
    "failed": "bad", "succeeded": "good", "cancelled": "calm", "started": "good", "recovered": "good",
} | {code.value: "bad" for code in Code}  # fmt: skip
NOTHING = SafeString('<span class="t-muted">–</span>')  # no value, which is not 0
_MARKS = {"bad": "▲", "wait": "◆", "good": "●", "calm": "○"}
_UNIT_SECONDS = {"_seconds": 1.0, "_us": 1e-6}  # by the ending of a name: what one of it is in seconds


@register.filter
def badge(word: str | None) -> SafeString:
    """Write a state or a health as a coloured word with a mark."""
    if not word:
        return NOTHING
    tone = _TONES.get(str(word), "calm")
    return format_html(
        '<span class="t-badge t-{}"><span aria-hidden="true">{}</span> {}</span>',
        tone, _MARKS[tone], words(word),
    )  # fmt: skip


@register.filter
def tone(word: Any) -> str:
    """Return how bad a state or a health is: good, calm, wait or bad."""
    return _TONES.get(str(word), "calm")


@register.filter
def mark(word: Any) -> str:
    """Return the mark that stands with a word's colour."""
    return _MARKS[tone(word)]


@register.filter
def words(name: Any) -> str:
    """Write a name of the contract as words: `waiting_for_gpu` is "waiting for GPU"."""
    return in_words(str(name))


@register.filter
def label(name: Any) -> str:
    """Write the name of a value that a worker tells of itself, without its unit: `told` writes that with the value."""
    return words(str(name).removesuffix(_unit(name)))


@register.filter
def percent(share: Any) -> str:
    """Write a share (0 to 1) in percent: small ones with a decimal, so that what there is never reads 0."""
    if not isinstance(share, (int, float)):
        return "–"
    if 0 < share < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"


@register.filter
def share(value: float) -> str:
    """Write a share as a style wants it."""
    return f"{value:.6f}"


@register.filter
def of(mapping: Mapping[Any, Any], key: Any) -> Any:
    """Return what a mapping has for a key, None without any."""
    return mapping.get(key)


@register.filter
def ago(instant: Any) -> SafeString:
    """Write an instant as its age, which a script keeps, with the instant itself (UTC) on hover."""
    moment = _moment(instant)
    if moment is None:
        return NOTHING
    age = (timezone.now() - moment).total_seconds()
    shown = f"in {duration(-age)}" if age < -1 else f"{duration(max(0.0, age), whole=True)} ago"
    return format_html(
        '<time datetime="{}" title="{} UTC" data-age>{}</time>',
        moment.isoformat(), moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"), shown,
    )  # fmt: skip


@register.filter
def instant(value: Any) -> SafeString:
    """Write an instant in UTC; a script puts the reader's own time zone in its place, and UTC on hover."""
    moment = _moment(value)
    if moment is None:
        return NOTHING
    return format_html(
        '<time datetime="{}" data-instant>{} UTC</time>',
        moment.isoformat(), moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M"),
    )  # fmt: skip


@register.simple_tag
def server_time() -> str:
    """Return the site's clock in unix seconds: the reader's own may be wrong."""
    return f"{timezone.now().timestamp():.1f}"


@register.filter
def duration(seconds: Any, whole: bool = False) -> str:
    """Write seconds with the unit that suits them: `12 ms`, `3.2 s`, `4 min 10 s`, `2 h 5 min`, `3 d`."""
    if not isinstance(seconds, (int, float)):
        return "–"
    if seconds < 0:
        return f"−{duration(-seconds, whole)}"
    if seconds < 1 and not whole:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 or seconds == 0 else f"{seconds * 1e6:.0f} µs"
    if seconds < 60:
        return span_words(seconds) if whole else f"{seconds:.1f} s"
    return span_words(seconds)


@register.filter
def figure(value: Any) -> str:
    """Write a number with four significant digits, or a dash for none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "–"
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}".replace(",", " ")  # a narrow space
    if 1_000 <= abs(value) < 1e6:
        return figure(round(value))
    return f"{value:.4g}"


def _unit(name: Any) -> str:
    return next((unit for unit in _UNIT_SECONDS if str(name).endswith(unit)), "")


@register.filter
def told(value: Any, name: str = "") -> str:
    """Write a value that a worker tells of itself: counts by kind on a line, those of 0 left out; spans with a unit."""
    if (unit := _unit(name)) and isinstance(value, (int, float)):
        return duration(value * _UNIT_SECONDS[unit])
    if isinstance(value, dict):
        return ", ".join(f"{words(kind)} {told(count)}" for kind, count in value.items() if count) or "none"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return figure(value)
    return "–" if value is None else str(value)


@register.filter
def short(text: Any, length: int = 40) -> SafeString:
    """Write a long id with its middle left out, whole on hover."""
    words = str(text or "")
    if len(words) <= length:
        return format_html('<span class="t-id">{}</span>', words)
    half = (length - 1) // 2
    return format_html('<span class="t-id" title="{}">{}…{}</span>', words, words[:half], words[-half:])


@register.filter
def sparkline(seconds: Sequence[float]) -> SafeString:
    """Draw how long each of the newest steps took, with the figures as its text."""
    if len(seconds) < 2:
        return NOTHING
    spread = f"{duration(min(seconds))} to {duration(max(seconds))}"
    text = f"newest {duration(seconds[-1])}, {spread} over {len(seconds)} steps"
    return format_html(
        '<svg class="t-spark" preserveAspectRatio="none" role="img" width="{}" height="{}" viewBox="0 0 {} {}"'
        ' aria-label="Step time: {}">'
        '<title>{}</title><polyline points="{}"/></svg> <span class="t-unit">{}</span>',
        WIDTH, HEIGHT, WIDTH, HEIGHT, text, text, sparkline_points(seconds), duration(seconds[-1]),
    )  # fmt: skip


@register.filter
def reading(found: Any) -> SafeString:
    """Write a metric's newest value with its name on hover."""
    if found is None:
        return NOTHING
    if found.value is None:
        return format_html('<span class="t-badge t-bad" title="{}">▲ not finite</span>', found.name)
    return format_html('<span class="t-reading" title="{}">{}</span>', found.name, figure(found.value))


def _moment(instant: Any) -> datetime | None:
    if isinstance(instant, datetime):
        return instant
    return parse_datetime(instant) if isinstance(instant, str) else None


@register.filter
def admin_quote(key: Any) -> str:
    """Write a primary key as the admin's URLs want it."""
    return str(quote(key))
