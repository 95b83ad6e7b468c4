"""What stands in a cell: values with their units, a dash where there is none, nothing that a terminal would obey."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from openrl_inspect import instants

DASH = "–"
TROUBLE = ("lost", "stuck", "failing", "diverging")  # in the API's order of precedence
WAITING = ("waiting_for_gpu", "queued", "waiting_for_client")
_STYLES = {
    **dict.fromkeys((*TROUBLE, "failed", "not ready"), "bold red"),
    **dict.fromkeys((*WAITING, "late", "cancelled"), "yellow"),
    **dict.fromkeys(("progressing", "sampling", "alive", "succeeded", "ready", "recovered"), "green"),
    **dict.fromkeys(("idle", "finished", "exited"), "dim"),
}
LEAST_ID_WIDTH = 14


def value_at(row: Any, path: str) -> Any:
    """Return what stands at a path such as `rates.steps_per_hour`; None where a site does not say it."""
    for name in path.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def plain(value: Any) -> str:
    """Return a value as text of one line. Workers write ids; what would steer a terminal becomes a dot."""
    if value is None or value == "":
        return DASH
    return "".join(letter if letter.isprintable() else "·" for letter in str(value))


def plain_lines(value: str) -> str:
    """Return a text of several lines, each as `plain` shows it."""
    return "\n".join(plain(line) if line else "" for line in value.split("\n"))


def word(value: Any) -> Text:
    """Return a state, a health or the like in its colour."""
    return Text(words(value), style=_STYLES.get(str(value), ""))


def words(value: Any) -> str:
    """Return a name of the API as the pages write it: `waiting_for_gpu` is "waiting for GPU"."""
    return " ".join("GPU" if word == "gpu" else word for word in plain(value).split("_"))


def count(value: Any) -> str:
    """Return a whole number, in groups of three."""
    return f"{value:,.0f}" if _is_number(value) else DASH


def failures(value: Any) -> Text:
    """Return a number that should be 0."""
    return Text(count(value), style="red" if value else "dim")


def number(value: Any) -> str:
    """Return a metric's value in four digits."""
    return f"{value:.4g}" if _is_number(value) else DASH


def share(value: Any) -> str:
    """Return a share of 0 to 1 in per cent."""
    if not _is_number(value):
        return DASH
    return "<1 %" if 0 < value < 0.01 else f"{value * 100:.0f} %"


def seconds(value: Any) -> str:
    """Return a duration in the unit that suits it, from a minute on in two, as the pages write it."""
    if not _is_number(value):
        return DASH
    if value < 0.0995:
        return f"{value * 1e3:.0f} ms" if value else "0 s"
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    for size, unit, below, smaller in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def ago(instant: Any, as_of: Any) -> str:
    """Return how long before an answer's own instant something was, in one unit."""
    then, now = instants.unix_seconds(instant), instants.unix_seconds(as_of)
    if then is None or now is None:
        return DASH
    return age(now - then)


def age(value: Any) -> str:
    """Return a span in the largest unit of which it has at least two."""
    if not _is_number(value):
        return DASH
    whole = max(0, round(value))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if whole >= 2 * size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def clock(instant: Any) -> str:
    """Return the local time of day of an instant, with its date where that is not today's."""
    found = instants.parse(instant)
    if found is None:
        return DASH
    local = found.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == datetime.now().astimezone().date() else f"{local:%Y-%m-%d %H:%M:%S}"


def several(values: Any, *, most: int = 3) -> str:
    """Return some texts in one line, and how many more there are."""
    if not isinstance(values, Iterable) or isinstance(values, (str, dict)) or not (listed := list(values)):
        return DASH
    more = f" +{len(listed) - most}" if len(listed) > most else ""
    return ", ".join(map(plain, listed[:most])) + more


def shortened(text: str, width: int) -> str:
    """Return a text with an ellipsis in place of its middle where it is longer."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}" if width > 2 else text[:width]


class Id:
    """An id that gives up its middle where a table is narrow: either end that stays is a part to ask by."""

    def __init__(self, value: Any, style: str = "cyan") -> None:
        self._text, self._style = plain(value), style

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(len(self._text), LEAST_ID_WIDTH), len(self._text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self._cut(self._text, options.max_width), style=self._style, no_wrap=True)

    _cut = staticmethod(shortened)


class Line(Id):
    """A text that gives up its end where a table is narrow, so that a row stays a line."""

    _cut = staticmethod(lambda text, width: text if len(text) <= width else f"{text[: width - 1]}…")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
