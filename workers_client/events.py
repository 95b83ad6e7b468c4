"""What the hooks append and the fold reads: tuples that start with one of these words.

`ids` below is what `commands.command_ids` returns: request id, op name, run and trace context. An op has the same four,
unchecked; the fold checks them.
"""

from __future__ import annotations

from typing import Any

Event = tuple[Any, ...]

ENQUEUED = "enqueued"  # ids, at
POPPED = "popped"  # list of ids, at
OPERATION = "operation"  # the op itself, request id, op name, run, trace context, start and end on `perf_counter`,
# error, metrics, replaced, work. The op has its role, and is freed by who folds, not in the hook.
ANSWERED = "answered"  # role, ids, at, error, whether its op runs right now
ANSWERED_LAST = "answered_last"  # request id of an op recorded a moment ago, when on `perf_counter`
DELIVERED = "delivered"  # request id, at, run where the caller knows it
SAMPLE_ACCEPTED = "sample_accepted"  # ids, accepted_at, at
SAMPLE_ANSWERED = "sample_answered"  # ids, accepted_at, at, error, tokens, source
TURN = "turn"  # workload, fields of its record, what it adds to the worker's totals
