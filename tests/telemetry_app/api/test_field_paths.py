"""`?fields=` keeps what it names, and refuses what nothing answers to."""

from __future__ import annotations

import pytest

from telemetry_app.api.field_paths import MOST_PATHS, select_fields
from telemetry_app.exceptions import InvalidQueryError

STEP = {
    "step": 811,
    "completed": True,
    "started_at": "…",
    "finished_at": "…",
    "wall_seconds": 52.8,
    "failures": 0,
    "operations": {
        "forward_backward": {
            "count": 4,
            "failures": 0,
            "seconds": 40.27,
            "queue_seconds": 1.2,
            "metrics": {
                "loss:sum": {"count": 4, "min": 1.1, "mean": 1.4, "max": 1.9, "last": 1.2},
                "a.b": {"count": 1},
            },
            "nonfinite": {},
        },
        "optim_step": {
            "count": 1,
            "failures": 0,
            "seconds": 5.41,
            "queue_seconds": 0.02,
            "metrics": {"grad_norm": {"count": 0}},
            "nonfinite": {"grad_norm": 1},
        },
    },
}
BARE = {**STEP, "step": 812, "operations": {}}


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ("step", {"step": 811}),
        ("wall_seconds", {"step": 811, "wall_seconds": 52.8}),
        ("operations", {"step": 811, "operations": STEP["operations"]}),
        ("operations.optim_step.seconds", {"step": 811, "operations": {"optim_step": {"seconds": 5.41}}}),
        (
            "operations.optim_step.metrics.grad_norm",
            {"step": 811, "operations": {"optim_step": {"metrics": {"grad_norm": {"count": 0}}}}},
        ),
        (
            "operations.forward_backward.metrics.loss:sum.mean",
            {"step": 811, "operations": {"forward_backward": {"metrics": {"loss:sum": {"mean": 1.4}}}}},
        ),
        (
            "operations.forward_backward.metrics.a.b",
            {"step": 811, "operations": {"forward_backward": {"metrics": {"a.b": {"count": 1}}}}},
        ),
        (
            "operations.optim_step.nonfinite.grad_norm",
            {"step": 811, "operations": {"optim_step": {"nonfinite": {"grad_norm": 1}}}},
        ),
        (" failures , completed ,,", {"step": 811, "failures": 0, "completed": True}),
        (
            "operations.optim_step.count,operations.optim_step.seconds",
            {"step": 811, "operations": {"optim_step": {"count": 1, "seconds": 5.41}}},
        ),
    ],
)
def test_a_path_keeps_what_it_names(fields, kept):
    assert select_fields([STEP], fields) == [kept]


def test_a_path_and_one_inside_of_it_keep_the_whole():
    both = "operations.optim_step,operations.optim_step.seconds"
    assert select_fields([STEP], both)[0]["operations"] == {"optim_step": STEP["operations"]["optim_step"]}


def test_a_path_and_the_whole_around_it_keep_the_whole():
    both = "operations.optim_step.seconds,operations"
    assert select_fields([STEP], both)[0]["operations"] == STEP["operations"]


def test_a_step_that_lacks_the_op_keeps_its_number():
    assert [step["step"] for step in select_fields([STEP, BARE], "operations.optim_step.seconds")] == [811, 812]


def test_what_is_selected_changes_no_step():
    before = repr(STEP)
    select_fields([STEP], "operations.optim_step.seconds,operations")
    assert repr(STEP) == before


@pytest.mark.parametrize(
    "path",
    [
        "stp",
        "operations.optim_stp",
        "operations.optim_step.second",
        "operations.optim_step.metrics.loss",
        "step.x",
        ".",
    ],
)
def test_an_unknown_path_is_refused_with_the_known_ones(path):
    with pytest.raises(InvalidQueryError) as caught:
        select_fields([STEP], path)
    assert repr(path) in str(caught.value)
    assert "operations.forward_backward.metrics.loss:sum.mean" in str(caught.value)
    assert caught.value.parameter == "fields"


def test_without_steps_every_name_of_an_op_or_metric_passes():
    assert select_fields([], "operations.anything.metrics.anything") == []


@pytest.mark.parametrize("path", ["stp", "operations.optim_step.second", "operation.x"])
def test_without_steps_a_path_that_no_step_could_have_is_refused(path):
    with pytest.raises(InvalidQueryError):
        select_fields([], path)


def test_more_paths_than_allowed_are_refused():
    with pytest.raises(InvalidQueryError, match="101 paths"):
        select_fields([STEP], ",".join(["step"] * (MOST_PATHS + 1)))
