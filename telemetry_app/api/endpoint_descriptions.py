"""What the schema says of each endpoint. Importing this module attaches it to the views."""

from __future__ import annotations

from telemetry_app.api import (
    filter_sets,
    fleet_serializers,
    run_serializers,
    serializers,
    time_serializers,
    verdict_serializers,
    work_serializers,
    worker_serializers,
)
from telemetry_app.api.devices import DeviceFilters, DeviceTimeFilters, DeviceViewSet
from telemetry_app.api.filters import PagedFilters
from telemetry_app.api.fleet import FleetView
from telemetry_app.api.incidents import (
    IncidentFilters,
    IncidentViewSet,
    RunIncidentFilters,
    RunIncidentsViewSet,
)
from telemetry_app.api.metrics import MetricFilters, RunMetricsViewSet
from telemetry_app.api.requests import RequestFilters, RequestViewSet, RunRequestsViewSet
from telemetry_app.api.retention import RetentionView
from telemetry_app.api.samples import RunSamplesViewSet, SampleFilters
from telemetry_app.api.schema import describe, described
from telemetry_app.api.time import RunTimeViewSet, TimeFilters
from telemetry_app.api.turns import AllTurnFilters, RunTurnsViewSet, TurnFilters, TurnViewSet
from telemetry_app.api.verdict import RunVerdictViewSet
from telemetry_app.api.views import FailureViewSet, RunViewSet, WorkerViewSet

RUN, WORKER, DEVICE = ("run",), ("worker",), ("device",)

describe(
    RunViewSet,
    list=described(
        run_serializers.RunsPage,
        summary="Runs, newest activity first.",
        description="Filters come before the page is cut. With `state` the states of the 1,000 most recently active "
        "runs are told live; older ones have the newest snapshot's.",
        example="runs_list",
        filters=filter_sets.RunFilters,
    ),
    retrieve=described(
        run_serializers.RunDetail,
        summary="All about one run.",
        description="Its state with the evidence, rates, ledger, open requests, workers and coverage.",
        example="runs_read",
        ids=RUN,
    ),
    steps=described(
        run_serializers.RunSteps,
        summary="A run's ops grouped by step, newest step last.",
        description="A step ends with its successful `optim_step`. Steps that Redis no longer holds come from history "
        "with the same fields. `fields` keeps only the named paths of each step.",
        example="runs_steps",
        filters=filter_sets.StepFilters,
        ids=RUN,
        has_csv=True,
    ),
    operations=described(
        serializers.RunOperations,
        summary="A run's op records, newest first.",
        description="Those that no snapshot took yet come from Redis, all others from PostgreSQL, each once.",
        example="runs_operations",
        filters=filter_sets.OperationFilters,
        ids=RUN,
        has_csv=True,
    ),
    failures=described(
        serializers.RunFailures,
        summary="A run's failed ops and failed sampling answers, newest first.",
        description="Messages of errors are never recorded: they may hold what people wrote.",
        example="runs_failures",
        filters=PagedFilters,
        ids=RUN,
        has_csv=True,
    ),
)

describe(
    FailureViewSet,
    list=described(
        serializers.FailuresPage,
        summary="Failures over all runs, newest first.",
        description="Failures that no snapshot took yet are looked for among the newest 64 records of the 200 most "
        "recently active runs.",
        example="failures_list",
        filters=filter_sets.FailureFilters,
        has_csv=True,
    ),
)

describe(
    WorkerViewSet,
    list=described(
        worker_serializers.WorkersPage,
        summary="Workers with their health, newest heartbeat first.",
        description="Redis keeps a worker's record for 24 h after its last heartbeat; older ones come from history.",
        example="workers_list",
        filters=filter_sets.WorkerFilters,
    ),
    retrieve=described(
        worker_serializers.WorkerDetail,
        summary="One worker with its settings, versions, buffer and GPU turns.",
        description="What the worker said of itself with its newest heartbeat.",
        example="workers_read",
        ids=WORKER,
    ),
    events=described(
        worker_serializers.WorkerEventsPage,
        summary="What happened to one worker, newest first.",
        description="Snapshots write events, so one that came and went between two snapshots is not there.",
        example="workers_events",
        filters=PagedFilters,
        ids=WORKER,
    ),
)

describe(
    RetentionView,
    get=described(
        worker_serializers.RetentionAnswer,
        summary="How long each kind is kept, and what went last.",
        description="The policies, in the order in which they are applied.",
        example="retention_read",
    ),
)

describe(
    RequestViewSet,
    list=described(
        work_serializers.RequestsPage,
        summary="Open requests of all runs, oldest first.",
        description="What is enqueued and not answered: one entry for each run, worker and op, whatever its age.",
        example="requests_list",
        filters=RequestFilters,
    ),
)

describe(
    RunRequestsViewSet,
    requests=described(
        work_serializers.RunRequests,
        summary="A run's open requests, oldest first: who holds them, stuck or not and why.",
        description="A worker that died holding requests leaves them orphaned under its name.",
        example="runs_requests",
        filters=RequestFilters,
        ids=RUN,
    ),
)

describe(
    IncidentViewSet,
    list=described(
        verdict_serializers.IncidentsPage,
        summary="What went wrong with all runs, newest first.",
        description="A pass over the active runs every five seconds opens and closes incidents; those that ended stay. "
        "One that comes back within five minutes is the same one.",
        example="incidents_list",
        filters=IncidentFilters,
    ),
)

describe(
    RunIncidentsViewSet,
    incidents=described(
        verdict_serializers.RunIncidents,
        summary="What went wrong with a run, newest first.",
        description="As the incidents of all runs, of this one.",
        example="runs_incidents",
        filters=RunIncidentFilters,
        ids=RUN,
    ),
)

describe(
    RunVerdictViewSet,
    verdict=described(
        verdict_serializers.RunVerdictAnswer,
        summary="What a run is doing or waiting for, since when, and how one knows.",
        description="One state with its evidence, what was expected and from how many records, what speaks against it, "
        "whom the run waits for across runs, what is wrong beside it, and what can safely be done.",
        example="runs_verdict",
        ids=RUN,
    ),
)

describe(
    RunSamplesViewSet,
    samples=described(
        work_serializers.RunSamples,
        summary="A run's sampling by window, oldest first, and its failed answers, newest first.",
        description="Windows are aligned to the Unix epoch. The failed answers are paged.",
        example="runs_samples",
        filters=SampleFilters,
        ids=RUN,
    ),
)

describe(
    RunTurnsViewSet,
    turns=described(
        work_serializers.RunTurns,
        summary="The GPU turns in which ops of a run ran, newest first, with their waits.",
        description="`waited_for` tells whose turns overlapped the wait, `current` who holds the device right now.",
        example="runs_turns",
        filters=TurnFilters,
        ids=RUN,
    ),
)

describe(
    TurnViewSet,
    list=described(
        work_serializers.TurnsPage,
        summary="The GPU turns of all workloads, newest first.",
        description="Who had a GPU when, and what ran in each turn for which run.",
        example="turns_list",
        filters=AllTurnFilters,
        has_csv=True,
    ),
)

describe(
    RunTimeViewSet,
    time=described(
        time_serializers.RunTime,
        summary="Where each step's wall time went, newest step last.",
        description="Parts are exclusive and add up. GPU waits are told by who held the GPU: workload, run and op.",
        example="runs_time",
        filters=TimeFilters,
        ids=RUN,
    ),
)

describe(
    RunMetricsViewSet,
    metrics=described(
        work_serializers.RunMetrics,
        summary="A run's metric series by step, downsampled with minima and maxima kept.",
        description="Points stand for a power of two of steps each, so the same steps make the same point each time.",
        example="runs_metrics",
        filters=MetricFilters,
        ids=RUN,
        has_csv=True,
    ),
)

describe(
    DeviceViewSet,
    list=described(
        time_serializers.DevicesPage,
        summary="Devices that had GPU turns, and what they did.",
        description="A node is a device, and all turns without a node are one. Times of a device add up to the span.",
        example="devices_list",
        filters=DeviceFilters,
    ),
    time=described(
        time_serializers.DeviceTimePage,
        summary="How long a device was in each state, by run, or by run and day.",
        description="Each instant is in one row: computing for a run, switching, idle while somebody waited, or idle.",
        example="devices_time",
        filters=DeviceTimeFilters,
        ids=DEVICE,
        has_csv=True,
    ),
)

describe(
    FleetView,
    get=described(
        fleet_serializers.FleetAnswer,
        summary="The fleet on one page.",
        description="Counts of runs by state and of workers by health, stuck requests, failures and the GPU's time of "
        "the last hour, and what the site itself can see.",
        example="fleet_read",
    ),
)
