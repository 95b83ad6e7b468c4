"""Every metric that is told: its name, type, labels and what it means. `docs/prometheus.md` lists the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. A counter's name ends in `_total`; a histogram is told as `_bucket`, `_sum` and `_count`."""

    kind: str
    name: str
    help: str
    labels: Labels = ()

    def of(self, value: float) -> Metric:
        """Return the metric with its one value."""
        return self.by({(): value})

    def by(self, values: Mapping[Labels, float]) -> Metric:
        """Return the metric with a value for each set of labels."""
        kind = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        metric: CounterMetricFamily | GaugeMetricFamily = kind(self.name, self.help, labels=self.labels)
        for labels, value in values.items():
            metric.add_metric(labels, value)
        return metric

    def spread(self, values: Mapping[Labels, tuple[Sequence[tuple[str, float]], float]]) -> Metric:
        """Return a histogram with buckets, each with what is below its end, and a sum for each set of labels."""
        metric = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        for labels, (buckets, total) in values.items():
            metric.add_metric(labels, buckets, total)
        return metric

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names that queries find."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{suffix}" for suffix in ("bucket", "sum", "count"))
        return (self.name,)


# --- Totals since the site began to count -----------------------------------------------------------------------
OPERATIONS = Family(
    "counter", "openrl_operations_total", "Ops that ended, by op and by how they ended.", ("operation", "status")
)
OPERATION_SECONDS = Family(
    "histogram",
    "openrl_operation_seconds",
    "How long ops ran, in seconds, failed ones included. Ops of one batch count the whole batch's time each.",
    ("operation",),
)
OPERATION_QUEUE_SECONDS = Family(
    "counter",
    "openrl_operation_queue_seconds_total",
    "Seconds that ops waited between enqueue and start.",
    ("operation",),
)
OPERATION_TOKENS = Family(
    "counter", "openrl_operation_tokens_total", "Tokens of ops, where workers say them.", ("operation",)
)
SAMPLE_ANSWERS = Family(
    "counter", "openrl_sample_answers_total", "Sampling requests that were answered or failed.", ("status",)
)
SAMPLE_SECONDS = Family(
    "counter", "openrl_sample_seconds_total", "Seconds from accepting to answering, over all answered requests."
)
SAMPLE_TOKENS = Family("counter", "openrl_sample_tokens_total", "Tokens of sampling answers, where workers say them.")
STEP_SECONDS = Family(
    "histogram",
    "openrl_step_seconds",
    "Wall seconds of completed steps, from the end of the step before. A step is counted half a minute after its end.",
)
STEP_PART_SECONDS = Family(
    "counter",
    "openrl_step_part_seconds_total",
    "Where the wall seconds of completed steps went, as it was told when the step was counted.",
    ("part",),
)
GPU_TURNS = Family("counter", "openrl_gpu_turns_total", "GPU turns that ended, by workload.", ("workload",))
GPU_HOLD_SECONDS = Family(
    "counter",
    "openrl_gpu_hold_seconds_total",
    "Seconds that turns held the GPU, by workload; counted at the end of the turn.",
    ("workload",),
)
GPU_WAIT_SECONDS = Family(
    "counter",
    "openrl_gpu_wait_seconds_total",
    "Seconds that turns waited for the GPU before they began, by workload; counted at the end of the turn.",
    ("workload",),
)
RECORDS_STORED = Family("counter", "openrl_records_stored_total", "Records taken into PostgreSQL.", ("kind",))
RECORDS_MALFORMED = Family(
    "counter", "openrl_records_malformed_total", "Elements of Redis's lists that were no usable record."
)
RECORDS_MISSING = Family(
    "counter",
    "openrl_records_missing_total",
    "Records that workers wrote and no snapshot found, when that was noticed; one that comes later is not taken off.",
)
RECORDS_CONFLICTING = Family(
    "counter",
    "openrl_records_conflicting_total",
    "Records that came again under a known id with other content; the first stays.",
)
RECORDS_DROPPED = Family(
    "counter",
    "openrl_records_dropped_total",
    "Records that workers say they dropped before they could send them, by kind and reason.",
    ("kind", "reason"),
)

# --- Now, as the newest pass over the active runs told it -------------------------------------------------------
FLEET_AGE = Family(
    "gauge",
    "openrl_fleet_age_seconds",
    "Age of what is told of active runs, workers and requests. They are left out past 60 s, or while Redis is out.",
)
ACTIVE_RUNS = Family(
    "gauge", "openrl_active_runs", "Runs that the newest pass looked at, by state; 1,000 at most, and troubled ones.",
    ("state",),
)  # fmt: skip
WORKERS = Family("gauge", "openrl_workers", "Workers that Redis knows, by role and health.", ("role", "health"))
REQUESTS_OPEN = Family(
    "gauge", "openrl_requests_open", "Requests enqueued and not answered, each counted once.", ("operation",)
)
REQUESTS_STUCK = Family(
    "gauge", "openrl_requests_stuck", "Open requests that are overdue or that nobody will answer.", ("operation",)
)
REQUESTS_OLDEST = Family(
    "gauge", "openrl_requests_oldest_seconds", "Age of the oldest open request whose age is known.", ("operation",)
)

# --- The site ---------------------------------------------------------------------------------------------------
REDIS_UP = Family("gauge", "openrl_redis_up", "Whether the site can read the workers' Redis (1) or not (0).")
POSTGRES_UP = Family(
    "gauge",
    "openrl_postgres_up",
    "Whether the site can read PostgreSQL (1) or not (0). While it can't, nothing that PostgreSQL tells is told.",
)
CHECKS = Family("gauge", "openrl_check_ok", "Whether a check of /readyz holds (1) or not (0).", ("check",))
CHECK_AGE = Family(
    "gauge",
    "openrl_check_age_seconds",
    "Age of the newest success of what should be repeated; left out before the first one.",
    ("check",),
)
CHECK_AGE_LIMIT = Family(
    "gauge", "openrl_check_age_limit_seconds", "Age past which that check no longer holds.", ("check",)
)
SNAPSHOT_LAG = Family(
    "gauge",
    "openrl_snapshot_lag_seconds",
    "How long the oldest record of the newest finished snapshot had waited in Redis; left out where it took none.",
)
SNAPSHOT_SECONDS = Family("gauge", "openrl_snapshot_seconds", "How long the newest finished snapshot took.")
SNAPSHOT_FAILED_RUNS = Family(
    "gauge", "openrl_snapshot_failed_runs", "Runs and workloads that the newest finished snapshot could not store."
)
SITE_REQUESTS = Family(
    "counter",
    "openrl_site_requests_total",
    "Requests that the site answered, by method, route and status class.",
    ("method", "route", "status"),
)
SITE_REQUEST_SECONDS = Family(
    "histogram",
    "openrl_site_request_seconds",
    "Seconds until the site had an answer, of streams until it had the first of it, by route.",
    ("route",),
)

# --- The newest runs, where TELEMETRY_METRICS_RUNS asks for them ------------------------------------------------
RUN_STATE = Family(
    "gauge", "openrl_run_state", "1 for the state in which the newest snapshot saw the run.", ("run", "state")
)
RUN_STEPS = Family("counter", "openrl_run_steps_total", "Steps that the run completed.", ("run",))
RUN_OPERATIONS = Family("counter", "openrl_run_operations_total", "Op records of the run.", ("run",))
RUN_FAILURES = Family(
    "counter", "openrl_run_failures_total", "Failed ops and failed sampling answers of the run.", ("run",)
)
RUN_MISSING = Family("gauge", "openrl_run_missing_records", "Records of the run that nobody has.", ("run",))

FAMILIES = tuple(value for value in vars().values() if isinstance(value, Family))
