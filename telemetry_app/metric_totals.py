"""Keep totals over all runs that only ever grow, with few labels whatever workers call their ops and workloads.

A label gets totals of its own when it is seen first, unless as many others grew within a week: then it counts as
`other`. Which one it is, is decided when it is counted, so that no total ever goes back. Names in use come first by
that, and those that are out of use make room.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Q

from telemetry_app.metric_growth import COLUMNS, DROPPED_KINDS, KNOWN_OPERATIONS, OTHER, Growth, Kind, Row
from telemetry_app.models.metric_totals import LABEL_LENGTH, MetricTotal

IN_USE = timedelta(days=7)  # a label that did not grow for so long makes room for others, and is not told
# Labels that always have totals of their own, and how many others may.
FIXED: Mapping[Kind, frozenset[str]] = {
    kind: {Kind.OPERATION: KNOWN_OPERATIONS, Kind.DROPPED: DROPPED_KINDS}.get(kind, frozenset()) | {"", OTHER}
    for kind in Kind
}
MOST_OTHERS = {Kind.OPERATION: 20, Kind.TURNS: 100}

_ADD = f"""
INSERT INTO {MetricTotal._meta.db_table} AS kept (kind, label, totals, changed_at)
SELECT kind, label, totals, %s FROM jsonb_to_recordset(%s) AS new (kind text, label text, totals float8[])
ORDER BY kind, label -- as every writer does, so that none waits for one that waits for it
ON CONFLICT (kind, label) DO UPDATE SET
    changed_at = greatest(kept.changed_at, excluded.changed_at),
    totals = ARRAY(
        SELECT coalesce(before, 0) + coalesce(more, 0)
        FROM unnest(kept.totals, excluded.totals) WITH ORDINALITY AS pair (before, more, place) ORDER BY place
    )
"""


def add(growth: Growth, now: datetime) -> None:
    """Add to the totals in one statement. Must be the last one of the transaction that stores the records.

    Whoever stores others' records waits for the rows from here to the commit.
    """
    rows = _labelled(growth, now)
    if not rows:
        return
    values = [
        {"kind": kind.value, "label": label, "totals": [row[name] for name in COLUMNS[kind]]}
        for (kind, label), row in rows.items()
    ]
    with connection.cursor() as cursor:
        cursor.execute(_ADD, [now, json.dumps(values)])


def stored_totals(now: datetime) -> dict[Kind, dict[str, Row]]:
    """Return all totals in use by kind, label and column, in one query; a column that was added later begins at 0."""
    fixed = {label for labels in FIXED.values() for label in labels}
    in_use = Q(changed_at__gte=now - IN_USE) | Q(label__in=fixed)
    found: dict[Kind, dict[str, Row]] = {kind: {} for kind in Kind}
    # A newer version of this site, which writes beside it for a while, may know other kinds.
    rows = MetricTotal.objects.filter(in_use, kind__in=list(Kind))
    for kind, label, totals in rows.values_list("kind", "label", "totals"):
        names = COLUMNS[Kind(kind)]
        found[Kind(kind)][label] = dict.fromkeys(names, 0.0) | dict(zip(names, totals, strict=False))
    return found


def _labelled(growth: Growth, now: datetime) -> dict[tuple[Kind, str], Row]:
    """Return the sums under the labels that may have totals of their own."""
    labels = {kind: _granted(kind, {label for of, label in growth.rows if of is kind}, now) for kind in Kind}
    found = Growth()
    for (kind, label), row in growth.rows.items():
        total = found.row(kind, labels[kind].get(label, OTHER))
        for name, value in row.items():
            total[name] += value
    return found.rows


def _granted(kind: Kind, wanted: Iterable[str], now: datetime) -> dict[str, str]:
    """Return the label of each name that has totals of its own; nothing is asked where all names are fixed."""
    granted = {name: name for name in wanted if name in FIXED[kind]}
    others = {name: name[:LABEL_LENGTH] for name in sorted(wanted) if name not in granted}
    if not others or kind not in MOST_OTHERS:
        return granted
    used = MetricTotal.objects.filter(kind=kind, changed_at__gte=now - IN_USE).exclude(label__in=FIXED[kind])
    in_use = set(used.values_list("label", flat=True))
    for name, label in others.items():
        if label in in_use or len(in_use) < MOST_OTHERS[kind]:
            granted[name] = label
            in_use.add(label)
    return granted
