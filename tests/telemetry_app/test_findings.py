"""Findings beside a run's state: what they are told from, and what only looks like them."""

from __future__ import annotations

import pytest

from telemetry_app.findings import Code, findings_of
from telemetry_app.run_facts import RunFacts
from tests.support.records import RUN, START, op
from workers_client.wire import OPTIM_STEP
from workers_client.wire_worker import Ledger


def codes(metrics, *, before=None):
    earlier = [op(OPTIM_STEP, at=START + number, metrics=before) for number in range(20) if before]
    newest = [op(OPTIM_STEP, at=START + 20 + number, metrics=metrics) for number in range(5)]
    facts = RunFacts(RUN, START + 30, START + 25, Ledger(), operations=[*earlier, *newest])
    return [finding.code for finding in findings_of(facts)]


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"loss:mean": 0.0}, [Code.LOSS_IS_ZERO]),
        ({"loss:mean": 0.0, "kl_loss:mean": 0.0}, [Code.LOSS_IS_ZERO]),
        ({"loss:mean": 1.5, "kl_loss:mean": 0.0}, []),  # a part that is switched off
        ({"grad_norm": 1e-9}, [Code.GRADIENT_VANISHED]),
        ({"grad_norm": 1e-9, "grad_scale": 65_536.0}, [Code.GRADIENT_VANISHED]),
        ({"grad_norm": 0.7, "grad_clipped": 0.0}, []),  # a count
        ({"policy_grad": 0.0, "value_grad": 0.7}, []),
    ],
)
def test_a_loss_or_gradient_is_told_by_all_metrics_that_speak_of_it(metrics, expected):
    assert codes(metrics) == expected


def test_a_gradient_that_is_a_ten_thousandth_of_what_it_was_vanished():
    assert codes({"grad_norm": 4e-5}, before={"grad_norm": 0.5}) == [Code.GRADIENT_VANISHED]
    assert codes({"grad_norm": 4e-4}, before={"grad_norm": 0.5}) == []
