"""The situations: what happens, and what has to be said of it. The play ends when it is due by the rules."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

from tests.scenarios.fleet_acts import NEIGHBOUR, RUN, Site, command, sampling
from tests.support.world import Process, World


@dataclass(frozen=True)
class Situation:
    """One situation: its play, the state and the open incidents that are expected of each run.

    `passed` are codes of incidents that may have come and gone meanwhile; any other is a false alarm.
    """

    name: str
    kind: str
    play: Callable[[World], None]
    state: str
    incidents: frozenset[str] = frozenset()
    others: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    passed: frozenset[str] = frozenset()


SITUATIONS: list[Situation] = []


def situation(
    kind: str, state: str, *incidents: str, passed: tuple[str, ...] = (), **others: tuple[str, ...]
) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    """Register a play with what is expected of `run-a`; `run_b=(state, incident, …)` of its neighbour."""

    def register(play: Callable[[World], None]) -> Callable[[World], None]:
        told = {name.replace("_", "-"): (words[0], frozenset(words[1:])) for name, words in others.items()}
        name = play.__name__.replace("_", " ")
        SITUATIONS.append(Situation(name, kind, play, state, frozenset(incidents), told, frozenset(passed)))
        return play

    return register


def trained(world: World, *, seconds: float = 1.0, minutes: float = 2.0) -> Site:
    """Return the processes of a run that has trained for a while, and whose client then pauses."""
    site = Site(world)
    steps = max(7, int(minutes * 60 / (2.25 * seconds + 1.9)))
    world.act(site.client(seconds=seconds, steps=steps))
    world.advance(steps * (2.25 * seconds + 1.9) + 8, judged=False)
    return site


# --- States ---------------------------------------------------------------------------------------------------
@situation("state", "progressing")
def a_healthy_run(world: World) -> None:
    site = Site(world)
    world.act(site.client())
    world.advance(40)


@situation("state", "sampling")
def a_run_that_samples(world: World) -> None:
    trained(world)
    sampler = world.start("sampler", "sampler-0")
    world.act(sampling(sampler, seconds=20, rounds=3))
    world.advance(45)


@situation("state", "waiting_for_client")
def a_client_that_thinks(world: World) -> None:
    trained(world)
    world.advance(120)


@situation("state", "idle")
def nothing_for_a_quarter_of_an_hour(world: World) -> None:
    trained(world)
    world.advance(880, judged=False)
    world.advance(30)


@situation("state", "finished")
def workers_that_left_with_nothing_open(world: World) -> None:
    site = trained(world)
    site.trainer.exit()
    world.advance(5)


@situation("state", "finished")
def a_model_that_was_deleted(world: World) -> None:
    site = trained(world)
    world.act(site.op("unload_model", seconds=0.2))
    world.advance(5)


@situation("state", "queued")
def requests_behind_a_trainer_that_serves_another_run(world: World) -> None:
    site = trained(world, seconds=10)
    world.act(site.op(run=NEIGHBOUR, seconds=45))
    world.advance(2)
    site.server.recorder.enqueued(command("forward_backward"))
    world.advance(12)


@situation("state", "waiting_for_gpu", run_b=("progressing",))
def a_neighbour_that_holds_the_gpu(world: World) -> None:
    own, other = two_on_one_gpu(world)
    world.act(other.in_turns(run=NEIGHBOUR, seconds=50, workload="b"))
    world.advance(3)
    world.act(own.in_turns(run=RUN, seconds=1, workload="a"))
    world.advance(8)


@situation("state", "stuck", "stuck")
def an_op_that_hangs(world: World) -> None:
    site = trained(world)
    world.act(site.op(seconds=10**6))
    world.advance(62)


@situation("state", "lost", "lost")
def a_trainer_that_was_killed_with_an_op(world: World) -> None:
    site = trained(world)
    world.act(site.op(seconds=30))
    world.advance(12)
    site.trainer.kill()
    world.advance(60)


@situation("state", "failing", "failing")
def ops_that_fail_one_after_another(world: World) -> None:
    site = trained(world)
    for number in range(3):
        world.act(site.op(seconds=1, error="OutOfMemoryError"), after=3 * number)
    world.advance(12)


@situation("state", "diverging", "diverging")
def a_loss_that_is_not_a_number(world: World) -> None:
    site = trained(world)
    world.act(site.op(seconds=1, nonfinite={"loss:sum": float("nan")}))
    world.advance(6)


# --- Findings -------------------------------------------------------------------------------------------------
@situation("finding", "progressing", "executed_twice")
def a_request_that_ran_twice(world: World) -> None:
    site = trained(world)
    wanted = command("forward_backward")
    world.act(site.op(sent=wanted))
    world.advance(8)
    site.restart_trainer("trainer-1")  # another process, which does not know that it ran
    world.act(site.op(sent=wanted))
    world.advance(8)


@situation("finding", "waiting_for_client", "answered_not_delivered")
def an_answer_that_nobody_fetches(world: World) -> None:
    site = trained(world)
    world.act(site.op(deliver=False))
    world.advance(64)


@situation("finding", "stuck", "stuck", "enqueued_beside_idle_worker", passed=("queued",))
def a_request_beside_an_idle_trainer(world: World) -> None:
    site = trained(world)
    site.server.recorder.enqueued(command("optim_step"))
    world.advance(62)


@situation("finding", "progressing", "loss_is_zero")
def a_loss_that_is_exactly_zero(world: World) -> None:
    site = Site(world)
    world.act(site.client(metrics=lambda step: {"loss:sum": 0.0, "grad_norm:mean": 0.4}))
    world.advance(25)


@situation("finding", "progressing", "gradient_vanished")
def a_gradient_that_vanished(world: World) -> None:
    site = Site(world)
    world.act(
        site.client(seconds=0.4, metrics=lambda step: {"loss:sum": 2.3, "grad_norm:mean": 0.5 if step < 8 else 1e-12})
    )
    world.advance(75)


# --- Look-alikes ----------------------------------------------------------------------------------------------
@situation("look-alike", "progressing")
def a_long_op_that_is_normal_for_the_run(world: World) -> None:
    site = trained(world, seconds=40, minutes=15)
    world.act(site.op(seconds=150))
    world.advance(100)


@situation("look-alike", "waiting_for_client")
def a_quiet_client_whose_answers_are_fetched(world: World) -> None:
    site = trained(world)
    world.act(site.op(seconds=1))
    world.advance(300)


@situation("look-alike", "progressing")
def a_late_heartbeat_of_a_healthy_worker(world: World) -> None:
    site = trained(world)
    world.act(site.op(seconds=45))
    world.advance(10)
    hold_back(world, [site.trainer], 38)


@situation("look-alike", "progressing")
def a_process_that_was_stopped_and_resumed(world: World) -> None:
    site = trained(world)
    world.act(site.op(seconds=30))
    world.advance(10)
    site.trainer.is_stopped = True
    world.advance(48)
    site.trainer.is_stopped = False
    world.advance(8)


@situation("look-alike", "progressing")
def a_restart_that_continues(world: World) -> None:
    site = trained(world)
    world.act(site.op(seconds=30))
    world.advance(8)
    site.trainer.kill()
    world.advance(2)
    site.restart_trainer("trainer-1")
    world.act(site.client())
    world.advance(75)


@situation("look-alike", "waiting_for_client")
def a_restart_that_continued_and_a_quiet_client(world: World) -> None:
    site = trained(world)
    world.act(site.op(seconds=30))
    world.advance(8)
    site.trainer.kill()
    site.restart_trainer("trainer-1")
    world.act(site.client(steps=5))
    world.advance(140)


@situation("look-alike", "progressing")
def a_slow_redis(world: World) -> None:
    site = Site(world)
    world.act(site.client())
    world.advance(20)
    for _ in range(3):
        hold_back(world, world.processes, 13)


@situation("look-alike", "progressing")
def a_redis_that_was_out_for_long(world: World) -> None:
    site = Site(world)
    world.act(site.client())
    world.advance(20)
    world.is_redis_out = True
    world.advance(100)
    world.is_redis_out = False
    world.advance(10)


@situation("look-alike", "queued")
def a_client_that_sends_far_ahead(world: World) -> None:
    site = trained(world)
    asked = [command("forward_backward") for _ in range(30)]
    for wanted in asked:
        site.server.recorder.enqueued(wanted)

    def one_by_one():
        for wanted in asked:
            yield from site.op(sent=wanted, seconds=8)

    world.act(one_by_one())
    world.advance(120)


@situation("look-alike", "progressing")
def commands_that_were_popped_together(world: World) -> None:
    site = trained(world)
    asked = [command("forward_backward") for _ in range(16)]
    for wanted in asked:
        site.server.recorder.enqueued(wanted)
    world.advance(1)
    site.trainer.recorder.popped(asked)

    def one_by_one():
        for wanted in asked:
            yield from site.run(wanted, seconds=9, popped=True)
            site.server.recorder.delivered(wanted["request_id"], RUN)

    world.act(one_by_one())
    world.advance(110)


@situation("look-alike", "progressing")
def a_single_step_with_a_loss_of_zero(world: World) -> None:
    site = Site(world)
    world.act(site.client(metrics=lambda step: {"loss:sum": 0.0 if step == 3 else 0.7, "grad_norm:mean": 0.4}))
    world.advance(40)


@situation("look-alike", "progressing", passed=("diverging",))
def a_step_that_was_not_finite_and_others_since(world: World) -> None:
    site = trained(world)
    world.act(site.op(seconds=1, nonfinite={"grad_norm:mean": float("inf")}))
    world.advance(6)
    world.act(site.client())
    world.advance(30)


@situation("look-alike", "idle", passed=("diverging",))
def a_loss_that_was_not_a_number_before_the_client_left(world: World) -> None:
    site = trained(world)
    world.act(site.op(seconds=1, nonfinite={"loss:sum": float("nan")}))
    world.advance(30)
    world.advance(870, judged=False)
    world.advance(20)


@situation("look-alike", "idle", passed=("failing",))
def ops_that_failed_before_the_client_left(world: World) -> None:
    site = trained(world)
    for number in range(3):
        world.act(site.op(seconds=1, error="ValueError"), after=3 * number)
    world.advance(30)
    world.advance(870, judged=False)
    world.advance(20)


@situation("look-alike", "progressing", run_b=("progressing",))
def a_first_op_as_long_as_those_of_another_run(world: World) -> None:
    site = Site(world)
    world.act(site.client(run=NEIGHBOUR, seconds=40, steps=11))
    world.advance(11 * 92 + 8, judged=False)
    world.act(site.op(seconds=150))
    world.advance(100)


@situation("look-alike", "waiting_for_gpu", run_b=("stuck", "stuck"))
def a_neighbour_that_hangs_with_another_gpu_of_the_node(world: World) -> None:
    own = Site(world, NODE_NAME="node-1", CUDA_VISIBLE_DEVICES="0")
    other = Site(world, trainer="trainer-b", server=own.server, NODE_NAME="node-1", CUDA_VISIBLE_DEVICES="1")
    third = Site(world, trainer="trainer-c", server=own.server, NODE_NAME="node-1", CUDA_VISIBLE_DEVICES="0")
    with other.trainer.recorder.gpu_turn("b", nullcontext()):
        world.act(other.op(run=NEIGHBOUR, seconds=10**6))
        world.advance(30)
        world.act(third.in_turns(run="run-c", seconds=56, workload="c"))
        world.advance(2)
        world.act(own.in_turns(run=RUN, seconds=1, workload="a"))
        world.advance(30)


@situation("look-alike", "sampling")
def long_answers_that_are_normal_for_the_run(world: World) -> None:
    sampler = world.start("sampler", "sampler-0")
    world.act(sampling(sampler, seconds=90, rounds=8))
    world.advance(5 * 91, judged=False)
    world.advance(85)


# --- Two at once ----------------------------------------------------------------------------------------------
@situation("two at once", "stuck", "stuck", passed=("waiting_for_gpu",), run_b=("stuck", "stuck"))
def a_neighbour_that_hangs_with_the_gpu(world: World) -> None:
    own, other = two_on_one_gpu(world)
    world.act(other.in_turns(run=NEIGHBOUR, seconds=10**6, workload="b"))
    world.advance(3)
    world.act(own.in_turns(run=RUN, seconds=1, workload="a"))
    world.advance(62)


@situation("two at once", "stuck", "stuck", passed=("waiting_for_gpu",), run_b=("lost", "lost"))
def a_neighbour_that_was_lost_with_the_gpu(world: World) -> None:
    own, other = two_on_one_gpu(world)
    world.act(other.in_turns(run=NEIGHBOUR, seconds=50, workload="b"))
    world.advance(8)
    world.act(own.in_turns(run=RUN, seconds=1, workload="a"))
    world.advance(6)
    other.trainer.kill()
    world.advance(62)


@situation("two at once", "failing", "failing", "diverging")
def ops_that_fail_after_a_step_that_was_not_finite(world: World) -> None:
    site = trained(world)
    world.act(site.op("optim_step", nonfinite={"grad_norm:mean": float("nan")}))
    for number in range(3):
        world.act(site.op(seconds=1, error="ValueError"), after=3 + 3 * number)
    world.advance(15)


@situation("two at once", "lost", "lost")
def a_trainer_lost_while_samples_are_answered(world: World) -> None:
    site = trained(world)
    sampler = world.start("sampler", "sampler-0")
    world.act(sampling(sampler, seconds=4))
    world.act(site.op(seconds=30))
    world.advance(12)
    site.trainer.kill()
    world.advance(60)


@situation("two at once", "stuck", "stuck")
def a_sampler_that_hangs_while_the_trainer_works(world: World) -> None:
    site = Site(world)
    world.act(site.client())
    sampler = world.start("sampler", "sampler-0")
    world.act(sampling(sampler, seconds=10**6))
    world.advance(63)


@situation("two at once", "progressing", "loss_is_zero", "executed_twice")
def a_request_that_ran_twice_with_a_loss_of_zero(world: World) -> None:
    site = trained(world)
    zero = {"loss:sum": 0.0}
    wanted = command("forward_backward")
    world.act(site.op(sent=wanted, metrics=zero))
    world.advance(4)
    site.restart_trainer("trainer-1")
    for number in range(5):
        world.act(site.op(sent=wanted if not number else None, metrics=zero), after=2.5 * number)
    world.advance(15)


@situation("two at once", "stuck", "stuck", passed=("queued",))
def requests_for_a_trainer_that_died_at_rest(world: World) -> None:
    site = trained(world)
    site.trainer.kill()
    world.advance(5)
    site.server.recorder.enqueued(command("forward_backward"))
    world.advance(64)


# --- Parts of plays -------------------------------------------------------------------------------------------
def two_on_one_gpu(world: World) -> tuple[Site, Site]:
    """Return the processes of two runs whose trainers share the GPU; of both an op has been done."""
    own = Site(world)
    other = Site(world, trainer="trainer-b", server=own.server)
    for site, run in ((own, RUN), (other, NEIGHBOUR)):
        world.act(site.op(run=run, seconds=1))
    world.advance(40, judged=False)
    return own, other


def hold_back(world: World, processes: list[Process], seconds: float) -> None:
    """Keep what processes send from Redis for so long; they go on working."""
    flushes = [process.flush for process in processes]
    for process in processes:
        process.flush = lambda: None
    world.advance(seconds)
    for process, flush in zip(processes, flushes, strict=True):
        process.flush = flush
        process.flush()
