"""What the endpoint of the fleet answers, described for the schema."""

from __future__ import annotations

from rest_framework import serializers

from telemetry_app.api import described_fields as described
from telemetry_app.api.serializers import FailureItem
from telemetry_app.api.work_serializers import RequestItem, RequestsCoverage


class FleetRuns(serializers.Serializer):
    """Runs by state."""

    count = described.count("All runs.")
    told_live_count = described.count("Runs whose state was told now; that of the others is the newest snapshot's.")
    by_state = described.mapping(serializers.IntegerField(min_value=0), "Runs in each state.")


class FleetWorkers(serializers.Serializer):
    """Workers by health and role."""

    count = described.count("Workers that Redis knows, and stored ones that were heard of within a day.")
    by_health = described.mapping(serializers.IntegerField(min_value=0), "Workers of each health.")
    by_role = described.mapping(
        serializers.DictField(child=serializers.IntegerField(min_value=0)), "Workers of each health, by role."
    )


class FleetStuckRequests(serializers.Serializer):
    """Requests that are orphaned or overdue."""

    requests_count = described.count("How many, each once.")
    orphaned_count = described.count("Of them those whose worker is gone.")
    total_matching = described.count("Entries of `/requests?stuck=true`.")
    oldest = RequestItem(many=True, help_text="The 10 oldest entries.")


class FleetFailures(serializers.Serializer):
    """Failures of the last hour."""

    since = described.instant("Since when.")
    total_matching = described.count("How many.")
    is_total_capped = described.switch("Whether there are more.")
    newest = FailureItem(many=True, help_text="The newest 5.")


class GpuPart(serializers.Serializer):
    """A part of the time of all devices."""

    seconds = described.number("How long. In seconds.", allow_null=False)
    share = described.number("Of the whole, 0 to 1; null without devices.")


class GpuRun(GpuPart):
    """What a run computed."""

    run_id = described.optional_text("The run; null of ops that name none.")


class FleetGpu(serializers.Serializer):
    """What GPUs did over the last hour. The four parts add up to the whole."""

    since = described.instant("Since when.")
    until = described.instant("Until when.")
    is_span_shortened = described.switch("Whether there were too many turns to look at the whole hour.")
    devices = described.count("Devices that had turns: one for each node, one for all turns without a node.")
    total_seconds = described.number("The whole: the span of each device. In seconds.", allow_null=False)
    computing = GpuPart(help_text="Ops of runs ran.")
    switching = GpuPart(help_text="Models woke, slept or synced weights.")
    idle_while_waited = GpuPart(help_text="Nothing ran, and a turn waited.")
    idle = GpuPart(help_text="Nothing ran, and nobody waited.")
    overlap_seconds = described.number("How long more than one turn held a device. In seconds.", allow_null=False)
    by_run = GpuRun(many=True, help_text="The 50 runs that computed longest.")
    other_runs = GpuPart(help_text="What all other runs computed.")


class SiteCheck(serializers.Serializer):
    """One thing that the site depends on."""

    ok = described.switch("Whether it is as it should be.")
    detail = described.text("What is wrong.", required=False)
    last_at = described.instant("When it was done last.", required=False)
    age_seconds = described.number("How long ago. In seconds.", required=False)
    limit_seconds = described.number("How old it may be. In seconds.", required=False)


class FleetSite(serializers.Serializer):
    """What the site can see."""

    is_ready = described.switch("Whether all checks are fine.")
    checks = described.mapping(SiteCheck(), "Each check of `/readyz` by name.")
    snapshot_lag_seconds = described.seconds("How long the oldest record of the newest snapshot had waited in Redis.")
    missing_records = described.optional_count("Records that are missing for good.")
    runs_with_missing_records = described.optional_count("Runs that miss some.")


class FleetAnswer(serializers.Serializer):
    """The fleet on one page."""

    as_of = described.instant("The instant the answer speaks of: now while Redis answers, else the newest snapshot.")
    coverage = RequestsCoverage()
    runs = FleetRuns()
    workers = FleetWorkers()
    stuck_requests = FleetStuckRequests()
    failures = FleetFailures()
    gpu = FleetGpu()
    site = FleetSite()
