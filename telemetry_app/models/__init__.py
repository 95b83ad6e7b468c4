"""What PostgreSQL keeps. Columns have the names of the wire contract; instants are aware (UTC)."""

from telemetry_app.models.access import ApiToken, ApiTokenQuerySet
from telemetry_app.models.alerts import (
    AlertChannel,
    AlertDelivery,
    AlertEdge,
    AlertMute,
    AlertNotice,
    AlertRule,
    HeartbeatPing,
)
from telemetry_app.models.incidents import Incident, IncidentCode, VerdictPass
from telemetry_app.models.limits import RECORD_ID_LENGTH, TEXT_LENGTH
from telemetry_app.models.maintenance import Execution, Gap, ListCursor, RetentionPolicy
from telemetry_app.models.metric_totals import MetricTotal
from telemetry_app.models.records import FailedOperation, FailedSample, Operation, Sample, Turn
from telemetry_app.models.runs import Run, RunState
from telemetry_app.models.step_times import StepTime
from telemetry_app.models.steps import StepAggregate
from telemetry_app.models.workers import Worker, WorkerEvent

__all__ = [
    "RECORD_ID_LENGTH",
    "TEXT_LENGTH",
    "AlertChannel",
    "AlertDelivery",
    "AlertEdge",
    "AlertMute",
    "AlertNotice",
    "AlertRule",
    "ApiToken",
    "ApiTokenQuerySet",
    "Execution",
    "FailedOperation",
    "FailedSample",
    "Gap",
    "HeartbeatPing",
    "Incident",
    "IncidentCode",
    "ListCursor",
    "MetricTotal",
    "Operation",
    "RetentionPolicy",
    "Run",
    "RunState",
    "Sample",
    "StepAggregate",
    "StepTime",
    "Turn",
    "VerdictPass",
    "Worker",
    "WorkerEvent",
]
