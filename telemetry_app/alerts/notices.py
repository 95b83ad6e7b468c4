"""One look at the incidents: which begin or end to be told, and to which channels. Nothing is sent here.

One look at a time, in one transaction; a killed one leaves nothing half done. The unique notice of an incident's edge
and a channel, not the lock, is what keeps it from being told twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Prefetch
from django.utils import timezone

from telemetry_app import locks
from telemetry_app.alerts.bundles import deliver
from telemetry_app.incident_changes import REOPEN_SECONDS
from telemetry_app.models import (
    AlertChannel,
    AlertDelivery,
    AlertEdge,
    AlertMute,
    AlertNotice,
    AlertRule,
    Incident,
    Run,
)

LOCK = "alert_notices"
MOST_INCIDENTS = 5_000  # newest open ones that one look takes, and ends of as many
KNOWN_NOTICES = 100_000  # starts whose ends are looked for
Rules = Sequence[tuple[AlertRule, Sequence[AlertChannel]]]
_TOLD = (AlertDelivery.State.SENT, AlertDelivery.State.UNKNOWN)


@dataclass(slots=True)
class NoticeSummary:
    """What one look did. `was_skipped`: another one was under way."""

    was_skipped: bool = False
    starts: int = 0
    ends: int = 0
    muted: int = 0


def take_notice(*, now: datetime | None = None) -> NoticeSummary:
    """Write down what is to be told and to whom. `now` stands for the clock where it is given."""
    summary = NoticeSummary()
    with transaction.atomic():
        if not locks.take_until_commit(LOCK):
            summary.was_skipped = True
            return summary
        at = now or timezone.now()
        mutes = list(AlertMute.objects.holding(at))
        _take_starts(at, mutes, summary)
        _take_ends(at, mutes, summary)
    return summary


# --- Starts ---------------------------------------------------------------------------------------------------
def _take_starts(at: datetime, mutes: Sequence[AlertMute], summary: NoticeSummary) -> None:
    """Tell of open incidents that have lasted long enough; what is muted is told once no mute covers it any more."""
    rules = _rules()
    incidents = _open_incidents(rules)
    runs = runs_of(incidents)
    known = _known_starts(incidents)
    muted: list[AlertNotice] = []
    found: dict[AlertChannel, list[AlertNotice]] = defaultdict(list)
    for incident in incidents:
        for channel, due in _due(incident, runs.get(incident.run_id), rules, at).items():
            notice = known.get((channel.pk, incident.pk))
            if notice is not None and (notice.delivery_id is not None or notice.is_over):
                continue
            loud = next((rule for rule in due if _mute_of(mutes, incident, rule) is None), None)
            if loud is not None:
                found[channel].append(_notice(notice, channel, incident, AlertEdge.START, at, rule=loud))
            elif notice is None:
                mute = _mute_of(mutes, incident, due[0])
                muted.append(_notice(None, channel, incident, AlertEdge.START, at, rule=due[0], mute=mute))
    AlertNotice.objects.bulk_create(muted)
    summary.muted += len(muted)
    summary.starts += len(deliver(AlertEdge.START, found, runs, at))


def _rules() -> Rules:
    """Return the rules that lead somewhere, each with its channels."""
    channels = Prefetch("channels", AlertChannel.objects.filter(is_enabled=True))
    rules = AlertRule.objects.filter(is_enabled=True).prefetch_related(channels)
    return [(rule, found) for rule in rules if (found := list(rule.channels.all()))]


def _open_incidents(rules: Rules) -> list[Incident]:
    """Return the newest open incidents, oldest first; none where no rule would tell of them."""
    if not rules:
        return []
    newest = Incident.objects.filter(ended_at=None).order_by("-started_at", "-id")[:MOST_INCIDENTS]
    return list(reversed(newest))


def runs_of(incidents: Iterable[Incident]) -> dict[str, Run]:
    """Return the rows of the incidents' runs by id; a run that no snapshot took yet has none."""
    run_ids = {incident.run_id for incident in incidents}
    return Run.objects.only("run_id", "name", "tags", "owner_id").in_bulk(run_ids) if run_ids else {}


def _known_starts(incidents: Sequence[Incident]) -> dict[tuple[int, int], AlertNotice]:
    if not incidents:
        return {}
    known = AlertNotice.objects.filter(edge=AlertEdge.START, incident__in=incidents)
    return {(notice.channel_id, notice.incident_id): notice for notice in known}


def _due(incident: Incident, run: Run | None, rules: Rules, at: datetime) -> dict[AlertChannel, list[AlertRule]]:
    """Return the channels that are to be told, each with the rules that lead there."""
    due: dict[AlertChannel, list[AlertRule]] = defaultdict(list)
    for rule, channels in rules:
        if rule.has_lasted(incident, at) and rule.applies_to(incident, run):
            for channel in channels:
                due[channel].append(rule)
    return due


# --- Ends -----------------------------------------------------------------------------------------------------
def _take_ends(at: datetime, mutes: Sequence[AlertMute], summary: NoticeSummary) -> None:
    """Tell the ends of what was told, once an incident can't come back as the same one any more."""
    silent: list[AlertNotice] = []
    muted: list[AlertNotice] = []
    told: dict[AlertChannel, list[AlertNotice]] = defaultdict(list)
    starts = {(start.channel_id, start.incident_id): start for start in _starts_that_ended(at)}
    for start in starts.values():
        if start.delivery is None or start.delivery.state not in _TOLD or not start.channel.is_enabled:
            silent.append(start)  # nobody heard of its start, or nobody listens any more
            continue
        mute = _mute_of(mutes, start.incident, start.rule)
        end = _notice(None, start.channel, start.incident, AlertEdge.END, at, rule=start.rule, mute=mute)
        if mute is None:
            told[start.channel].append(end)
        else:
            muted.append(end)
    AlertNotice.objects.bulk_create(muted)
    delivered = deliver(AlertEdge.END, told, runs_of(start.incident for start in starts.values()), at)
    over = [*silent, *(starts[end.channel_id, end.incident_id] for end in (*muted, *delivered))]
    AlertNotice.objects.filter(pk__in=[start.pk for start in over]).update(is_over=True)
    summary.muted += len(muted)
    summary.ends += len(delivered)


def _starts_that_ended(at: datetime) -> list[AlertNotice]:
    """Return starts whose incident is over, and whose message is no longer on its way.

    By keys, one table after the other: a join of both was planned as every notice against every incident, right after
    many of them came at once.
    """
    untold = AlertNotice.objects.filter(edge=AlertEdge.START, is_over=False)
    known = set(untold.order_by().values_list("incident_id", flat=True)[:KNOWN_NOTICES])
    final = at - timedelta(seconds=REOPEN_SECONDS)
    over = Incident.objects.filter(pk__in=known, ended_at__lt=final).order_by("id")[:MOST_INCIDENTS] if known else []
    incidents = {incident.pk: incident for incident in over}
    starts = untold.filter(incident_id__in=list(incidents)).select_related("delivery", "channel", "rule")
    on_their_way = (AlertDelivery.State.QUEUED, AlertDelivery.State.SENDING)
    found = []
    for start in starts.order_by("id") if incidents else ():
        if start.delivery is None or start.delivery.state not in on_their_way:
            start.incident = incidents[start.incident_id]
            found.append(start)
    return found


# --- Both -----------------------------------------------------------------------------------------------------
def _mute_of(mutes: Iterable[AlertMute], incident: Incident, rule: AlertRule | None) -> AlertMute | None:
    return next((mute for mute in mutes if mute.covers(incident.run_id, rule)), None)


def _notice(
    notice: AlertNotice | None,
    channel: AlertChannel,
    incident: Incident,
    edge: AlertEdge,
    at: datetime,
    *,
    rule: AlertRule | None,
    mute: AlertMute | None = None,
) -> AlertNotice:
    """Return a notice, new or one that was muted until now."""
    notice = notice or AlertNotice(channel=channel, edge=edge)
    notice.incident, notice.rule, notice.mute, notice.noticed_at = incident, rule, mute, at
    return notice
