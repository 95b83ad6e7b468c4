"""What happens to fleets of real processes: signals and faults, and what has to be said of each run, and when."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

from examples.reference_fleet.envelope import new_command
from tests.scenarios.running_fleet import (
    DIGITS,
    IDLE_SECONDS,
    LATE_SECONDS,
    LOST_SECONDS,
    POLE,
    SPIRALS,
    STUCK_SECONDS,
    RunningFleet,
    pause,
)

Play = Callable[[RunningFleet], None]
AT_WORK = "progressing or sampling or waiting_for_gpu or waiting_for_client or queued"
HANGING = f"{DIGITS}:forward_backward:4"  # the first after three steps
TRAINER, SERVER, CLIENT = "trainer:classify", "api-server", f"client:{DIGITS}"


@dataclass(frozen=True)
class FleetSituation:
    """One situation: its play on a fleet of its own, or with the whole site to itself."""

    name: str
    play: Play
    is_alone: bool = False
    is_long: bool = False


SITUATIONS: list[FleetSituation] = []


def situation(play: Play) -> Play:
    """Register a play that strikes its own fleet alone."""
    SITUATIONS.append(FleetSituation(play.__name__.replace("_", "-"), play))
    return play


def long_situation(play: Play) -> Play:
    """Register a play of a quarter of an hour, which is for the page of answers."""
    SITUATIONS.append(FleetSituation(play.__name__.replace("_", "-"), play, is_long=True))
    return play


def situation_of_all(play: Play) -> Play:
    """Register a play that strikes what all fleets share."""
    SITUATIONS.append(FleetSituation(play.__name__.replace("_", "-"), play, is_alone=True))
    return play


# --- Nothing is wrong -----------------------------------------------------------------------------------------
@situation
def healthy_run(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.start(CLIENT)
    fleet.watch("progressing", seconds=60)


@situation
def healthy_runs_that_share_the_gpu(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS, POLE)
    fleet.start(CLIENT)
    fleet.start(f"client:{POLE}")
    fleet.watch(AT_WORK, seconds=45)
    fleet.watch(AT_WORK, of=POLE, seconds=15)


@situation
def samples_that_take_their_time(fleet: RunningFleet) -> None:
    fleet.serve(POLE, device_seconds=8)
    fleet.start(f"client:{POLE}")
    fleet.until_state(POLE, "sampling")
    fleet.expect("sampling", of=POLE)


@situation
def quiet_client(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.start(CLIENT, client_stops=f"{DIGITS}:5")
    fleet.wait_for_end(CLIENT)
    fleet.watch("waiting_for_client or progressing", seconds=60)
    fleet.expect("waiting_for_client")


@long_situation
def client_that_was_quiet_for_a_quarter_of_an_hour(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.start(CLIENT, client_stops=f"{DIGITS}:5")
    fleet.wait_for_end(CLIENT)
    fleet.expect("idle", due=IDLE_SECONDS)


@situation
def finished_client_and_clean_exits(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.start(CLIENT, steps=5)
    fleet.wait_for_end(CLIENT)
    fleet.send(TRAINER, signal.SIGTERM)
    fleet.expect("finished")


# --- Something is lost or hangs -------------------------------------------------------------------------------
@situation
def trainer_killed_with_requests_open(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS, device_seconds=4)
    fleet.start(CLIENT)
    fleet.until_it_runs(DIGITS)
    fleet.send(TRAINER, signal.SIGKILL)
    fleet.expect("lost", "lost", due=LOST_SECONDS)


@situation
def trainer_stopped_for_a_moment(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS, device_seconds=4)
    fleet.start(CLIENT)
    fleet.until_it_runs(DIGITS)
    fleet.send(TRAINER, signal.SIGSTOP)
    wait(LOST_SECONDS - LATE_SECONDS)
    fleet.send(TRAINER, signal.SIGCONT)
    fleet.watch("progressing", seconds=30)


@situation
def trainer_stopped_for_long_and_resumed(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS, device_seconds=4)
    fleet.start(CLIENT)
    fleet.until_it_runs(DIGITS)
    fleet.send(TRAINER, signal.SIGSTOP)
    fleet.expect("lost", "lost", due=LOST_SECONDS)
    fleet.send(TRAINER, signal.SIGCONT)
    fleet.expect("progressing", passed=["lost"], due=15)


@situation
def op_that_hangs(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS, hang_op=HANGING)
    fleet.train(DIGITS, steps=3)
    fleet.ask(DIGITS, "forward_backward", fleet.batch(DIGITS))
    fleet.expect("stuck", "stuck", due=STUCK_SECONDS)


@situation
def sampler_killed_with_samples_open(fleet: RunningFleet) -> None:
    fleet.serve(POLE, device_seconds=1, sample_deadline=600)
    fleet.start(f"client:{POLE}")
    fleet.until_state(POLE, "sampling")
    fleet.send("sampler", signal.SIGKILL)
    fleet.expect("stuck", "stuck", of=POLE, due=STUCK_SECONDS)


@situation
def dispatcher_killed_with_samples_open(fleet: RunningFleet) -> None:
    fleet.serve(POLE, device_seconds=4, sample_deadline=600)
    fleet.start(f"client:{POLE}")
    fleet.until_state(POLE, "sampling")
    fleet.send("dispatcher", signal.SIGKILL)
    fleet.expect("lost", "lost", of=POLE, due=LOST_SECONDS)


@situation
def request_that_no_trainer_takes(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.train(DIGITS, steps=3)
    fleet.send(TRAINER, signal.SIGTERM)
    fleet.ask(DIGITS, "forward_backward", fleet.batch(DIGITS))
    fleet.expect("stuck", "stuck", due=STUCK_SECONDS, passed=["queued"])


# --- Something waits ------------------------------------------------------------------------------------------
@situation
def long_op_of_a_neighbour_with_the_gpu(fleet: RunningFleet) -> None:
    neighbour_in_a_turn(fleet, device_seconds=30)
    fleet.expect("waiting_for_gpu", of=POLE, behind="trainer-classify forward_backward that moves")
    fleet.expect("progressing")


@situation
def neighbour_that_hangs_with_the_gpu(fleet: RunningFleet) -> None:
    neighbour_in_a_turn(fleet, hang_op=f"{DIGITS}:forward_backward:1")
    fleet.expect("stuck", "stuck", due=STUCK_SECONDS)
    behind = "trainer-classify forward_backward stuck"
    fleet.expect("stuck", "stuck", of=POLE, passed=["waiting_for_gpu"], behind=behind)


@situation
def neighbour_stopped_with_the_gpu(fleet: RunningFleet) -> None:
    neighbour_in_a_turn(fleet, hang_op=f"{DIGITS}:forward_backward:1")
    fleet.send(TRAINER, signal.SIGSTOP)
    behind = "trainer-classify forward_backward lost"
    fleet.expect("waiting_for_gpu", "waiting_for_gpu", of=POLE, due=LOST_SECONDS, behind=behind)
    fleet.expect("lost", "lost")
    fleet.expect("stuck", "stuck", of=POLE, due=STUCK_SECONDS, passed=["waiting_for_gpu"], behind=behind)


@situation
def neighbour_killed_with_the_gpu(fleet: RunningFleet) -> None:
    neighbour_in_a_turn(fleet, hang_op=f"{DIGITS}:forward_backward:1")
    fleet.send(TRAINER, signal.SIGKILL)
    fleet.watch("progressing or waiting_for_client", of=POLE, seconds=LOST_SECONDS)
    fleet.expect("lost", "lost")


@situation
def requests_behind_an_op_of_another_run(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS, SPIRALS)
    fleet.train(DIGITS, steps=2)
    fleet.restart(TRAINER, device_seconds=30)
    fleet.ask(DIGITS, "forward_backward", fleet.batch(DIGITS))
    fleet.until_it_runs(DIGITS)
    fleet.ask(SPIRALS, "forward_backward", fleet.batch(SPIRALS))
    fleet.expect("queued", of=SPIRALS, due=10)


# --- What runs goes wrong -------------------------------------------------------------------------------------
@situation
def ops_that_fail(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.train(DIGITS, steps=3)
    for _ in range(3):
        fleet.call(DIGITS, "forward_backward", fleet.batch(DIGITS, loss="no_such_loss"))
    fleet.expect("failing", "failing")


@situation
def gradient_that_is_no_number(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS, nan_gradient=f"{DIGITS}:5")
    fleet.start(CLIENT, client_stops=f"{DIGITS}:5")
    fleet.wait_for_end(CLIENT)
    fleet.expect("diverging", "diverging")


@situation
def client_that_leaves_before_its_answers(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.start(CLIENT, client_leaves=f"{DIGITS}:4")
    fleet.wait_for_end(CLIENT)
    fleet.expect("waiting_for_client", "answered_not_delivered", due=STUCK_SECONDS)


@situation
def batches_without_an_advantage(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.train(DIGITS, steps=6, loss="importance_sampling")
    fleet.expect("progressing", "loss_is_zero", "gradient_vanished")


@situation
def request_that_is_queued_twice(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.train(DIGITS, steps=2)
    command = new_command("forward_backward", fleet.plan(DIGITS).run_id, fleet.batch(DIGITS))
    fleet.queue(DIGITS, command)
    fleet.wait_for_result(command["request_id"])
    fleet.restart(TRAINER)  # another process, which does not know that it ran
    fleet.queue(DIGITS, command)
    fleet.wait_for_result(command["request_id"])
    fleet.expect("progressing or waiting_for_client", "executed_twice")


@situation
def request_that_its_queue_lost(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.train(DIGITS, steps=3)
    fleet.send(TRAINER, signal.SIGSTOP)
    wait(1)  # its blocking pop is over
    fleet.ask(DIGITS, "forward_backward", fleet.batch(DIGITS))
    fleet.lose_queue(DIGITS)
    fleet.send(TRAINER, signal.SIGCONT)
    fleet.expect("stuck", "stuck", "enqueued_beside_idle_worker", due=STUCK_SECONDS, passed=["queued"])


# --- It looks wrong, and is not -------------------------------------------------------------------------------
@situation
def trainer_restarted_that_goes_on(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS, device_seconds=0.3)
    fleet.start(CLIENT, request_timeout=5)
    fleet.until_it_runs(DIGITS)
    fleet.restart(TRAINER, signal.SIGKILL)
    fleet.watch("progressing", seconds=LOST_SECONDS + 20)


@situation
def api_server_restarted(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.start(CLIENT)
    fleet.until_it_runs(DIGITS)
    fleet.restart(SERVER, signal.SIGTERM)
    fleet.watch("progressing", seconds=LOST_SECONDS + 10)


@situation
def api_server_killed_and_restarted(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.start(CLIENT)
    fleet.until_it_runs(DIGITS)
    fleet.restart(SERVER, signal.SIGKILL)
    fleet.watch("progressing", seconds=LOST_SECONDS + 10)


@situation
def late_heartbeat_of_a_healthy_trainer(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    records = fleet.proxied(work=False)
    fleet.restart(TRAINER)  # records go through the proxy, its work does not
    fleet.start(CLIENT)
    fleet.until_it_runs(DIGITS)
    records.mode = "swallow"
    wait(LOST_SECONDS - LATE_SECONDS)
    records.mode = "pass"
    fleet.watch("progressing", seconds=30)


@situation
def clocks_that_are_apart(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.restart(SERVER, clock_ahead=45)
    fleet.restart(TRAINER, clock_ahead=-45, hang_op=f"{DIGITS}:forward_backward:100")
    fleet.start(CLIENT)
    fleet.watch("progressing", seconds=30)
    fleet.expect("stuck", "stuck", due=STUCK_SECONDS + 60)


@situation
def slow_redis(fleet: RunningFleet) -> None:
    slow = fleet.proxied(work=True)
    fleet.serve(DIGITS)
    fleet.start(CLIENT)
    fleet.until_it_runs(DIGITS)
    slow.mode = "delay"  # 0.3 s a reply
    fleet.watch("progressing", seconds=60)


@situation_of_all
def redis_that_hangs_and_heals(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.start(CLIENT)
    fleet.until_it_runs(DIGITS)
    fleet.send_to_redis(signal.SIGSTOP)
    wait(LOST_SECONDS + 16)
    fleet.send_to_redis(signal.SIGCONT)
    fleet.watch("progressing", seconds=45)


@situation_of_all
def redis_that_is_killed_and_comes_back(fleet: RunningFleet) -> None:
    fleet.serve(DIGITS)
    fleet.start(CLIENT)
    fleet.until_it_runs(DIGITS)
    fleet.send_to_redis(signal.SIGKILL)
    fleet.watch("progressing", seconds=45)


# --- Parts of plays -------------------------------------------------------------------------------------------
def neighbour_in_a_turn(fleet: RunningFleet, **flags: float | str) -> None:
    """Have an op of a classifier that is started with these flags hold the GPU, and the other run wait for its turn."""
    fleet.serve(DIGITS, POLE)
    fleet.train(DIGITS, steps=3)
    for _ in range(3):
        fleet.call(POLE, "save_weights")
    fleet.restart(TRAINER, **flags)
    fleet.ask(DIGITS, "forward_backward", fleet.batch(DIGITS))
    fleet.until_it_runs(DIGITS)
    fleet.ask(POLE, "save_weights")
    fleet.until_state(POLE, "waiting_for_gpu")


def wait(seconds: float) -> None:
    """Let so much time go by."""
    for _ in range(int(seconds)):
        pause()
