"""What a run is doing: each state, its look-alikes, and which goes first where several hold."""

from __future__ import annotations

import pytest

from telemetry_app.health import Health
from telemetry_app.models import RunState
from telemetry_app.one_clock import by_redis_clock
from telemetry_app.run_facts import Learned
from telemetry_app.run_state import RunFacts, WorkerFact, overdue_seconds, run_state
from tests.support.records import RUN, START, op, worker
from workers_client.wire import FORWARD_BACKWARD, OPTIM_STEP
from workers_client.wire_worker import CurrentOp, CurrentTurn, Ledger, OutstandingWork

NOW = START
DONE = Ledger(enqueued=10, popped=10, answered=10, delivered=10)
OPEN = Ledger(enqueued=10, popped=10, answered=9, delivered=9, last_enqueued_at=NOW - 5)


def held(*, age_seconds=5.0, operation=FORWARD_BACKWARD, count=1, run_id=RUN):
    return OutstandingWork(run_id, operation, count, NOW - age_seconds, ("q1",))


def fact(name="trainer-1", *, health=Health.ALIVE, heartbeat_age_seconds=1.0, **fields):
    return WorkerFact(worker(name, at=NOW - heartbeat_age_seconds, **fields), health)


def verdict(**fields):
    defaults = {"run_id": RUN, "now": NOW, "last_activity_at": NOW - 5, "ledger": DONE}
    return run_state(RunFacts(**(defaults | fields)))


def finished_ops(*ages, **fields):
    return [op(at=NOW - age, **fields) for age in ages]


# --- Each state -----------------------------------------------------------------------------------------------
def test_a_worker_that_stopped_with_requests_loses_the_run():
    gone = fact(health=Health.LOST, heartbeat_age_seconds=300, outstanding=(held(age_seconds=310, count=3),))
    found = verdict(workers=[gone], ledger=OPEN)
    assert (found.state, found.since) == ("lost", NOW - 300)
    assert "trainer-1" in found.evidence[0]
    assert "3 forward_backward" in found.evidence[0]


def test_a_request_older_than_expected_is_stuck():
    found = verdict(workers=[fact(outstanding=(held(age_seconds=61),))], ledger=OPEN)
    assert (found.state, found.since) == ("stuck", NOW - 1)
    assert "held by trainer-1" in found.evidence[0]


def test_requests_that_no_living_worker_holds_are_stuck():
    found = verdict(ledger=OPEN, last_activity_at=NOW - 61)
    assert found.state == "stuck"
    assert found.evidence == ("1 request is unanswered and no worker holds it",)


@pytest.mark.parametrize("health", [Health.LOST, Health.EXITED])
def test_requests_of_an_api_server_that_is_gone_are_stuck(health):
    gone = fact(role="api_server", health=health, heartbeat_age_seconds=400, outstanding=(held(age_seconds=500),))
    assert verdict(workers=[gone], ledger=OPEN, last_activity_at=NOW - 400).state == "stuck"


def test_three_failures_in_a_row_of_an_op_are_failing():
    failed = [op(at=NOW - age, status="failed", error_type="ValueError") for age in (30, 20, 10)]
    found = verdict(operations=[*finished_ops(40), *failed])
    assert (found.state, found.since) == ("failing", NOW - 30)
    assert "ValueError" in found.evidence[0]


def test_a_nonfinite_gradient_is_diverging_and_names_the_step():
    found = verdict(operations=[op(OPTIM_STEP, at=NOW - 10, step=7, nonfinite={"grad_norm:mean": "nan"})])
    assert (found.state, found.since) == ("diverging", NOW - 10)
    assert found.evidence == ("grad_norm:mean of optim_step was nan at step 7",)


def test_a_worker_that_waits_for_a_turn_is_waiting_for_gpu_and_names_the_holder():
    waiting = fact(outstanding=(held(),), turn=CurrentTurn("mine", NOW - 30, None))
    holder = fact(
        "trainer-2",
        runs=("run-b",),
        turn=CurrentTurn("theirs", NOW - 50, NOW - 40),
        current=CurrentOp("sample", "run-b"),
    )
    found = verdict(workers=[waiting, holder], ledger=OPEN)
    assert (found.state, found.since) == ("waiting_for_gpu", NOW - 30)
    assert "theirs holds it running sample of run-b for 40 s" in found.evidence[0]


def test_requests_that_nobody_popped_are_queued():
    ledger = Ledger(enqueued=12, popped=9, answered=9, delivered=9, last_enqueued_at=NOW - 30)
    found = verdict(ledger=ledger, workers=[fact(current=CurrentOp("optim_step", "run-b"))])
    assert (found.state, found.since) == ("queued", NOW - 30)
    assert found.evidence == ("3 requests wait and none popped them; trainer-1 is busy with optim_step",)


def test_open_sampling_requests_are_sampling():
    found = verdict(workers=[fact("sampler-1", outstanding=(held(operation="sample", count=8),))], ledger=OPEN)
    assert (found.state, found.since) == ("sampling", NOW - 5)
    assert found.evidence == ("8 sampling requests are open at sampler-1",)


def test_a_recent_finish_is_progress():
    found = verdict(operations=finished_ops(25))
    assert found.state == "progressing"
    assert found.also == ("waiting_for_client",)


def test_a_recent_sample_is_progress_too():
    assert verdict(last_sample_at=NOW - 25).state == "progressing"


def test_a_request_in_work_that_is_not_overdue_is_progress():
    found = verdict(workers=[fact(outstanding=(held(age_seconds=45),))], ledger=OPEN)
    assert found.state == "progressing"
    assert "1 forward_backward held by trainer-1" in found.evidence


def test_a_request_popped_a_moment_ago_is_progress_before_its_worker_says_so():
    assert verdict(ledger=OPEN, last_activity_at=NOW - 3).state == "progressing"


def test_everything_answered_is_the_clients_turn():
    found = verdict(operations=finished_ops(400), last_activity_at=NOW - 400)
    assert (found.state, found.since) == ("waiting_for_client", NOW - 400)


def test_no_activity_for_a_quarter_of_an_hour_is_idle():
    found = verdict(last_activity_at=NOW - 900, operations=finished_ops(900))
    assert (found.state, found.since) == ("idle", NOW - 900)


def test_workers_that_all_exited_cleanly_are_finished():
    found = verdict(workers=[fact(health=Health.EXITED), fact("sampler-1", health=Health.EXITED)])
    assert (found.state, found.since) == ("finished", NOW - 5)


def test_a_run_of_which_nothing_is_known_is_idle():
    assert verdict(ledger=Ledger(), last_activity_at=None).state == "idle"


# --- Look-alikes ----------------------------------------------------------------------------------------------
def test_a_late_heartbeat_is_no_death():
    late = fact(health=Health.LATE, heartbeat_age_seconds=50, outstanding=(held(age_seconds=50),))
    found = verdict(workers=[late], ledger=OPEN)
    assert found.state == "progressing"


def test_a_lost_worker_that_held_nothing_loses_no_run():
    found = verdict(workers=[fact(health=Health.LOST, heartbeat_age_seconds=300)], last_activity_at=NOW - 300)
    assert found.state == "waiting_for_client"


def test_a_lost_worker_of_another_run_loses_no_run():
    gone = fact(health=Health.LOST, outstanding=(held(age_seconds=300, run_id="run-b"),), runs=("run-b",))
    assert verdict(workers=[gone], operations=finished_ops(5)).state == "progressing"


def test_a_lost_worker_among_others_that_exited_is_not_finished():
    workers = [fact(health=Health.EXITED), fact("sampler-1", health=Health.LOST)]
    assert verdict(workers=workers).state != "finished"


def test_quiet_is_not_finished():
    assert verdict(workers=[fact()], last_activity_at=NOW - 90_000).state == "idle"


def test_workers_that_exited_with_requests_open_are_not_finished():
    workers = [fact(health=Health.EXITED, outstanding=(held(),))]
    assert verdict(workers=workers, ledger=OPEN, last_activity_at=NOW - 90_000).state == "stuck"


@pytest.mark.parametrize("age_seconds", [61, 1_000, 86_400, 90 * 86_400])
def test_an_open_request_stays_stuck_whatever_its_age(age_seconds):
    workers = [fact(outstanding=(held(age_seconds=age_seconds),))]
    found = verdict(workers=workers, ledger=OPEN, last_activity_at=NOW - age_seconds)
    assert found.state == "stuck"


def test_three_failures_with_a_success_among_them_are_not_failing():
    failed = [op(at=NOW - age, status="failed") for age in (40, 30, 10)]
    assert verdict(operations=[*failed, *finished_ops(20)]).state == "progressing"


@pytest.mark.parametrize(
    ("ages", "state"),
    [
        ((920, 910, 899), "failing"),
        ((920, 910, 901), "waiting_for_client"),
        ((5_000, 3_500, 1_000), "failing"),  # an op that comes every twenty minutes
        ((5_000, 4_500, 4_000), "waiting_for_client"),
    ],
)
def test_failures_are_of_the_past_after_a_quarter_of_an_hour_or_as_long_as_they_took_to_come(ages, state):
    found = verdict(operations=finished_ops(*ages, status="failed"), last_activity_at=NOW - 60)
    assert found.state == state


def test_a_run_that_failed_long_ago_and_was_left_is_idle():
    failed = finished_ops(5_000, 4_990, 4_980, status="failed")
    assert verdict(operations=failed, last_activity_at=NOW - 4_980).state == "idle"


def test_three_failures_of_different_ops_are_not_failing():
    names = (FORWARD_BACKWARD, OPTIM_STEP, "save_weights")
    assert verdict(operations=[op(name, at=NOW - 5, status="failed") for name in names]).state == "progressing"


def test_cancelled_ops_are_not_failing():
    assert verdict(operations=finished_ops(5, 6, 7, status="cancelled")).state == "progressing"


def test_a_nonfinite_metric_that_is_no_loss_is_not_diverging():
    assert verdict(operations=finished_ops(5, nonfinite={"kl": "nan"})).state == "progressing"


def test_a_run_that_recovered_from_a_nonfinite_loss_is_not_diverging():
    operations = [*finished_ops(50, nonfinite={"loss": "nan"}), *finished_ops(40, 30, 20)]
    assert verdict(operations=operations).state == "progressing"


@pytest.mark.parametrize(
    ("ages", "state"),
    [
        ((920, 910, 899), "diverging"),
        ((920, 910, 901), "waiting_for_client"),
        ((5_000, 3_500, 1_000), "diverging"),  # a step that takes twenty minutes
        ((901,), "waiting_for_client"),  # a single evaluation, since which the run went on
    ],
)
def test_a_loss_that_was_not_finite_is_of_the_past_after_as_long_as_failures_are(ages, state):
    found = verdict(operations=finished_ops(*ages, nonfinite={"loss": "nan"}), last_activity_at=NOW - 60)
    assert found.state == state


def test_a_run_that_diverged_and_was_ended_is_finished():
    workers = [fact(health=Health.EXITED, heartbeat_age_seconds=4_980)]
    diverged = finished_ops(5_000, 4_990, 4_980, nonfinite={"loss": "nan"})
    assert verdict(operations=diverged, workers=workers, last_activity_at=NOW - 4_980).state == "finished"


def test_counts_of_two_processes_a_flush_apart_are_not_queued():
    ledger = Ledger(enqueued=12, popped=9, answered=9, delivered=9, last_enqueued_at=NOW - 8)
    assert verdict(ledger=ledger, operations=finished_ops(9)).state == "progressing"


def test_more_answered_than_enqueued_is_nothing_open():
    assert (
        verdict(ledger=Ledger(enqueued=5, popped=7, answered=7), operations=finished_ops(200)).state
        == "waiting_for_client"
    )


def test_a_worker_that_holds_a_turn_is_not_waiting_for_it():
    working = fact(outstanding=(held(),), turn=CurrentTurn("mine", NOW - 30, NOW - 20))
    assert verdict(workers=[working], ledger=OPEN).state == "progressing"


def test_a_worker_without_work_of_the_run_that_waits_for_a_turn_is_no_wait_of_the_run():
    waiting = fact(turn=CurrentTurn("mine", NOW - 30, None))
    assert verdict(workers=[waiting], operations=finished_ops(5)).state == "progressing"


OTHERS = {
    "expected_seconds": {FORWARD_BACKWARD: 2.0},
    "expected_from": {FORWARD_BACKWARD: 900},
    "expected_of_model": {FORWARD_BACKWARD: Learned(90.0, 40, 90.0)},
}


def test_the_first_long_op_of_a_run_is_told_by_what_runs_of_its_model_take():
    working = fact(outstanding=(held(age_seconds=400),), current=CurrentOp(FORWARD_BACKWARD, RUN, "q1", NOW - 400))
    assert verdict(workers=[working], ledger=OPEN, **OTHERS).state == "progressing"
    few = OTHERS | {"expected_of_model": {FORWARD_BACKWARD: Learned(90.0, 19, 90.0)}}
    assert verdict(workers=[working], ledger=OPEN, **few).state == "stuck"


def test_what_is_stuck_says_from_what_its_limit_is_known():
    working = fact(outstanding=(held(age_seconds=500),), current=CurrentOp(FORWARD_BACKWARD, RUN, "q1", NOW - 500))
    found = verdict(workers=[working], ledger=OPEN, **OTHERS)
    assert "expected within 7 min 30 s (5 × 1 min 30 s, the 95th percentile of 40 records of" in found.evidence[0]
    assert "of its base model" in found.evidence[0]


# --- Requests that are gone -----------------------------------------------------------------------------------
GONE = Ledger(enqueued=20, popped=15, answered=15, delivered=15, last_enqueued_at=NOW - 20)


def gone(age_seconds):
    """What an API server still lists of requests that a killed worker had popped and had not told of."""
    return fact("api-0", role="api_server", outstanding=(held(age_seconds=age_seconds, count=5),))


def went_on(*ages):
    return [op(at=NOW - age, started_at=NOW - age - 1, enqueued_at=NOW - age - 2) for age in ages]


@pytest.mark.parametrize(
    ("lost_ago", "ran_ago", "state"),
    [
        (50, 18, "progressing"),  # the client has sent others, and the newest has run
        (70, 18, "progressing"),  # old enough to be overdue, and the run goes on
        (300, 18, "progressing"),
        (300, 250, "stuck"),  # nothing has run since
    ],
)
def test_requests_that_newer_ones_have_passed_are_no_queue_and_hold_nobody_up(lost_ago, ran_ago, state):
    found = verdict(workers=[gone(lost_ago), fact()], ledger=GONE, operations=went_on(ran_ago))
    assert (found.state, "queued" in found.also) == (state, state == "stuck")


def test_a_client_that_went_on_and_is_quiet_now_does_not_wait_for_what_was_lost_long_before():
    ledger = Ledger(enqueued=20, popped=15, answered=15, delivered=15, last_enqueued_at=NOW - 102)
    found = verdict(workers=[gone(300), fact()], ledger=ledger, operations=went_on(105, 100), last_activity_at=NOW - 99)
    assert (found.state, found.also) == ("waiting_for_client", ())


# --- Clocks ---------------------------------------------------------------------------------------------------
def enqueued(ahead, behind, *servers):
    """Return an op that waited 4 s, stamped by a clock `ahead`, run by one `behind`, by Redis's clock."""
    servers = [fact(f"api-{n}", role="api_server", clock_offset_seconds=offset) for n, offset in enumerate(servers)]
    trainer = fact("t", clock_offset_seconds=-behind)
    recorded = op(
        at=NOW - 1 - behind, started_at=NOW - 6 - behind, enqueued_at=NOW - 10 + ahead, queue_seconds=0.0, worker="t"
    )
    [found] = by_redis_clock(RUN, DONE, [recorded], [], NOW, [*servers, trainer])["operations"]
    return found.enqueued_at, found.started_at, found.queue_seconds


@pytest.mark.parametrize(("ahead", "behind"), [(30.0, 0.0), (0.0, 20.0), (30.0, 20.0), (-45.0, 0.0)])
def test_the_wait_in_a_queue_is_told_by_one_clock(ahead, behind):
    assert enqueued(ahead, behind, ahead) == (NOW - 10, NOW - 6, 4.0)


def test_of_api_servers_whose_clocks_differ_nobody_says_which_stamped_a_request():
    assert enqueued(30.0, 0.0, 30.0, 0.0) == (None, NOW - 6, None)


def test_a_queue_passes_a_request_by_only_where_clocks_brought_together_say_so():
    ahead = 40.0
    server = fact("api-0", role="api_server", outstanding=(held(age_seconds=70 - ahead),), clock_offset_seconds=ahead)
    trainer = fact("t", current=CurrentOp(FORWARD_BACKWARD, RUN, "q0", NOW - 5))
    before = op(at=NOW - 35, started_at=NOW - 50, enqueued_at=NOW - 80 + ahead, worker="t")
    finishes = by_redis_clock(RUN, OPEN, [before], [], NOW - 5, [server, trainer])
    assert verdict(workers=[server, trainer], **finishes).state == "progressing"
    later = op(at=NOW - 35, started_at=NOW - 50, enqueued_at=NOW - 65 + ahead, worker="t")
    finishes = by_redis_clock(RUN, OPEN, [later], [], NOW - 5, [server, trainer])
    assert verdict(workers=[server, trainer], **finishes).state == "stuck"


def test_answers_not_fetched_yet_are_the_clients_turn():
    server = fact(role="api_server", outstanding=(held(age_seconds=500),))
    ledger = Ledger(enqueued=10, popped=10, answered=10, delivered=9)
    assert verdict(workers=[server], ledger=ledger, last_activity_at=NOW - 500).state == "waiting_for_client"


def test_a_heartbeat_is_no_progress():
    alive = fact(heartbeat_age_seconds=0.1)
    assert verdict(workers=[alive], last_activity_at=NOW - 2_000, operations=finished_ops(2_000)).state == "idle"


# --- What is overdue ------------------------------------------------------------------------------------------
def facts_with(seconds, count, **fields):
    operations = [op(at=NOW - 9, elapsed_seconds=seconds) for _ in range(count)]
    return RunFacts(run_id=RUN, now=NOW, last_activity_at=NOW, ledger=DONE, operations=operations, **fields)


def test_nothing_is_overdue_before_a_minute():
    assert overdue_seconds(FORWARD_BACKWARD, facts_with(0.1, 50)) == 60.0


def test_a_slow_op_has_five_times_its_own_percentile():
    assert overdue_seconds(FORWARD_BACKWARD, facts_with(40.0, 20)) == 200.0


def test_a_run_with_fewer_than_20_of_an_op_is_judged_by_all_runs():
    facts = facts_with(40.0, 19, expected_seconds={FORWARD_BACKWARD: 100.0})
    assert overdue_seconds(FORWARD_BACKWARD, facts) == 500.0


def test_an_op_that_no_run_finished_has_a_minute():
    assert overdue_seconds("never-seen", facts_with(40.0, 30)) == 60.0


# --- Precedence -----------------------------------------------------------------------------------------------
def everything_at_once():
    """Return facts under which every state holds but those that exclude each other."""
    failed = [op(at=NOW - age, status="failed", nonfinite={"loss": "nan"}) for age in (9, 8, 7)]
    workers = [
        fact("gone", health=Health.LOST, heartbeat_age_seconds=300, outstanding=(held(age_seconds=300),)),
        fact("slow", outstanding=(held(age_seconds=200),), turn=CurrentTurn("mine", NOW - 150, None)),
        fact("sampler-1", outstanding=(held(operation="sample"),)),
    ]
    ledger = Ledger(enqueued=12, popped=9, answered=9, delivered=9, last_enqueued_at=NOW - 30)
    return {"operations": failed, "workers": workers, "ledger": ledger}


def test_states_stand_in_order_of_precedence():
    found = verdict(**everything_at_once())
    assert [found.state, *found.also] == [
        "lost", "stuck", "failing", "diverging", "waiting_for_gpu", "queued", "sampling", "progressing",
    ]  # fmt: skip


def test_no_state_stands_twice():
    workers = [fact(f"slow-{number}", outstanding=(held(age_seconds=200),)) for number in range(3)]
    found = verdict(workers=workers, ledger=OPEN)
    assert found.state not in found.also
    assert len(found.evidence) == 3


def test_the_precedence_is_the_one_that_rows_know():
    found = verdict(**everything_at_once())
    order = [state.value for state in RunState]
    positions = [order.index(state) for state in (found.state, *found.also)]
    assert positions == sorted(positions)
