"""What a person or an agent can safely do about a verdict: looks first, and then what loses nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from telemetry_app.findings import Code, Finding
from telemetry_app.holder_chain import Link
from telemetry_app.run_state import RunVerdict


def next_steps(run_id: str, state: RunVerdict, chain: Sequence[Link], findings: Sequence[Finding]) -> Iterator[str]:
    """Yield what can be done, the safest first. Nothing here is done by the site itself."""
    run = f"/runs/{quote(run_id, safe='')}"
    worker = next((fact.worker for fact in state.conditions[0].evidence if fact.worker), None)
    yield from _of_state(state.state, run, f"/workers/{quote(worker, safe='')}" if worker else "/workers")
    for link in chain:
        if link.run_id and link.run_id != run_id:
            yield f"Look at GET /runs/{quote(link.run_id, safe='')}/verdict: that run is what this one waits for."
            break
    if any(link.condition == "cycle" for link in chain):
        yield "They wait for each other: stopping one of the workers named in the chain lets the others go on."
    for finding in findings:
        yield _OF_FINDING[finding.code].format(run=run)


def _of_state(state: str, run: str, worker: str) -> Iterator[str]:
    for text in _OF_STATE[state]:
        yield text.format(run=run, worker=worker)


_OF_STATE = {
    "lost": (
        "Look at GET {worker}/events, and at the log of that process, for why it stopped.",
        "Starting the worker again is safe: it goes on with the numbering of the steps.",
        "Nobody answers the requests that it held (GET {run}/requests?stuck=true): have the client send them again.",
    ),
    "stuck": (
        "Look at GET {run}/requests?stuck=true, and at the stack of the process that holds them (GET {worker}).",
        "Read the counter-evidence before you stop that process: the requests it holds are lost with it.",
    ),
    "failing": (
        "Look at GET {run}/failures for the types, and at the worker's log for the messages.",
        "Pausing the client is safe: nothing is trained by requests that fail.",
    ),
    "diverging": (
        "Pause the client: each further step trains on what is broken.",
        "Look at GET {run}/metrics for the last step that was finite, and go on from a checkpoint before it.",
    ),
    "waiting_for_gpu": ("Nothing is wrong with this run: it goes on when the holder gives the GPU back.",),
    "queued": ("Look at GET {run}/requests for how long they wait. Waiting is safe: queued requests are not lost.",),
    "sampling": ("Nothing: it samples.",),
    "progressing": ("Nothing: it goes on.",),
    "waiting_for_client": ("Nothing here: look at the client, which has all its answers and asks for nothing.",),
    "idle": ("Nothing is open: its workers can be stopped without loss.",),
    "finished": ("Nothing: it is over, and its workers and queues can go.",),
}
_OF_FINDING = {
    Code.EXECUTED_TWICE: "A request ran twice: compare the two records (GET {run}/operations) before you trust the "
    "steps around them.",
    Code.ANSWERED_NOT_DELIVERED: "Answers wait for a client: see whether it still runs, and let it ask again.",
    Code.ENQUEUED_BESIDE_IDLE_WORKER: "An idle worker does not take what is queued: see which queue it listens to.",
    Code.LOSS_IS_ZERO: "A loss of exactly 0.0 is no success: look at the data, the mask and the worker's log.",
    Code.GRADIENT_VANISHED: "Nothing is learned any more: look at GET {run}/metrics, the loss and the learning rate.",
}
