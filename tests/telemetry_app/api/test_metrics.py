"""Metric series of a run by step, downsampled on the server."""

from __future__ import annotations

import pytest

from telemetry_app import stored_metrics
from telemetry_app.models import Operation, StepAggregate
from telemetry_app.snapshots import take_snapshot
from tests.support.costs import cost_of
from tests.support.records import RUN, foreign_op, op
from tests.telemetry_app.api.conftest import run_path
from workers_client.wire import FORWARD_BACKWARD, OPTIM_STEP

pytestmark = pytest.mark.django_db
PATH = run_path(RUN, "/metrics")
NUMBERS = ("count", "min", "mean", "max", "last")
KEPT = pytest.mark.parametrize("kept", ["live", "history", "both"])


def step(number, at, *, loss=None, grad=None, run_id=RUN, nonfinite=None):
    metrics = {} if loss is None else {"loss:sum": loss}
    return [
        op(FORWARD_BACKWARD, at=at, step=number, run_id=run_id, metrics=metrics, nonfinite=nonfinite or {}),
        op(OPTIM_STEP, at=at + 0.1, step=number, run_id=run_id, metrics={} if grad is None else {"grad_norm": grad}),
    ]


def put(writer, kept, records):
    """Put records into Redis, of which a snapshot takes none, all, or the first half."""
    half = len(records) // 2 if kept == "both" else len(records)
    writer.operations(*records[:half])
    writer.steps(max(record.step for record in records if record.operation == OPTIM_STEP) + 1)
    if kept != "live":
        take_snapshot()
    writer.operations(*records[half:])
    if kept == "history":
        writer.client.flushdb()


def series(answer):
    return {(each["operation"], each["name"]): each for each in answer["results"]}


def values(each, field="mean"):
    return [(point["step"], point[field]) for point in each["points"]]


@KEPT
def test_a_series_has_a_point_for_each_step(api, writer, now, kept):
    put(writer, kept, [r for n in range(4) for r in step(n, now - 50 + n, loss=n + 0.5, grad=float(n))])
    answer = api.answer(PATH, names="loss:sum,grad_norm")
    found = series(answer)
    assert list(found) == [(FORWARD_BACKWARD, "loss:sum"), (OPTIM_STEP, "grad_norm")]
    assert values(found[FORWARD_BACKWARD, "loss:sum"]) == [(0, 0.5), (1, 1.5), (2, 2.5), (3, 3.5)]
    assert (answer["from"], answer["to"], answer["steps_per_point"], answer["count"]) == (0, 3, 1, 2)
    assert answer["coverage"]["source"] == kept


@KEPT
@pytest.mark.parametrize("few", [0, stored_metrics.FEW_NAMES])
def test_a_step_of_several_ops_has_their_spread(api, writer, now, monkeypatch, kept, few):
    monkeypatch.setattr(stored_metrics, "FEW_NAMES", few)
    stored_metrics._folded.cache_clear()
    records = [
        op(at=now - 9 + n, step=0, metrics={"kl": -10 * value, "loss:sum": value} | only)
        for n, (value, only) in enumerate(((3.0, {}), (1.0, {"of_two": 5.0}), (2.0, {"of_two": 6.0}), (4.0, {})))
    ]
    records.append(op(at=now - 4, step=0, metrics={}))
    put(writer, kept, [*records, op(OPTIM_STEP, at=now - 3, step=0, metrics={"kl": 1.0, "loss:sum": 2.0})])
    found = series(api.answer(PATH, names="kl,loss:sum,of_two"))
    point = {"step": 0, "last_step": 0, "min_step": 0, "max_step": 0}
    told = {key: each["points"] for key, each in found.items() if each["points"]}
    assert told == {
        (FORWARD_BACKWARD, "kl"): [point | {"count": 4, "min": -40.0, "mean": -25.0, "max": -10.0, "last": -40.0}],
        (FORWARD_BACKWARD, "loss:sum"): [point | {"count": 4, "min": 1.0, "mean": 2.5, "max": 4.0, "last": 4.0}],
        (FORWARD_BACKWARD, "of_two"): [point | {"count": 2, "min": 5.0, "mean": 5.5, "max": 6.0, "last": 6.0}],
        (OPTIM_STEP, "kl"): [point | dict(zip(NUMBERS, (1, *[1.0] * 4), strict=True))],
        (OPTIM_STEP, "loss:sum"): [point | dict(zip(NUMBERS, (1, *[2.0] * 4), strict=True))],
    }


@KEPT
def test_a_long_series_is_downsampled_without_losing_extremes(api, writer, now, kept):
    losses = [1.0 + (n % 10) / 10 for n in range(300)]
    losses[123], losses[77] = 99.0, -5.0
    put(writer, kept, [r for n in range(300) for r in step(n, now - 400 + n, loss=losses[n])])
    answer = api.answer(PATH, names="loss:sum", points=50)
    [each] = answer["results"]
    assert answer["steps_per_point"] == 8
    assert len(each["points"]) == 38
    assert [(p["max_step"], p["max"]) for p in each["points"] if p["max"] > 2] == [(123, 99.0)]
    assert [(p["min_step"], p["min"]) for p in each["points"] if p["min"] < 1] == [(77, -5.0)]
    first = each["points"][0]
    assert (first["step"], first["last_step"], first["count"], first["last"]) == (0, 7, 8, losses[7])
    assert first["mean"] == pytest.approx(sum(losses[:8]) / 8)


def test_points_are_the_same_whichever_source_has_them(api, writer, now):
    losses = [((n * 37) % 101) / 7 for n in range(200)]
    records = [r for n in range(200) for r in step(n, now - 400 + n, loss=losses[n], grad=losses[-n])]
    writer.operations(*records[:250])
    writer.steps(200)
    found = []
    take_snapshot()
    writer.operations(*records[250:])
    for _ in range(2):
        found.append(api.results(PATH, names="loss:sum,grad_norm", points=30))
        take_snapshot()
    writer.client.flushdb()
    found.append(api.results(PATH, names="loss:sum,grad_norm", points=30))
    approximate = [[{**p, "mean": pytest.approx(p["mean"])} for e in answer for p in e["points"]] for answer in found]
    assert [p for e in found[0] for p in e["points"]] == approximate[1] == approximate[2]


@pytest.mark.parametrize("points", [3, 30, 2_000])
@pytest.mark.parametrize("query", [{}, {"from": 41}, {"from": 3, "to": 1_000_000}, {"to": 66}])
def test_points_are_the_same_in_however_many_parts_they_are_folded(api, writer, now, monkeypatch, points, query):
    records = [r for n in range(100) for r in step(n, now - 400 + n, loss=((n * 37) % 101) / 7)]
    put(writer, "history", [*records, op("save_weights", at=now, step=100, metrics={"loss:sum": 9.0})])
    whole = api.results(PATH, names="loss:sum", points=points, **query)
    statements = statements_of(monkeypatch)
    stored_metrics._folded.cache_clear()
    monkeypatch.setattr(stored_metrics, "VALUES_AT_ONCE", 10)
    assert api.results(PATH, names="loss:sum", points=points, **query) == whole
    assert 1 <= statements.count(stored_metrics._SERIES_OF_ONE) <= stored_metrics.MOST_PARTS + 1


def test_a_metric_is_the_same_asked_for_alone_and_with_many(api, writer, now, monkeypatch):
    put(writer, "history", [r for n in range(50) for r in step(n, now - 400 + n, loss=((n * 37) % 101) / 7)])
    alone = {name: api.results(PATH, names=name, points=9) for name in ("loss:sum", "grad_norm")}
    monkeypatch.setattr(stored_metrics, "FEW_NAMES", 1)
    stored_metrics._folded.cache_clear()
    together = api.results(PATH, names="loss:sum,grad_norm", points=9)
    assert [each for name in alone for each in alone[name]]
    for told in together:
        [same] = [each for each in alone[told["name"]] if each["operation"] == told["operation"]]
        means = [point.pop("mean") for point in told["points"]]
        assert means == pytest.approx([point.pop("mean") for point in same["points"]])
        assert told == same


def statements_of(monkeypatch):
    statements = []
    rows = stored_metrics._rows
    monkeypatch.setattr(stored_metrics, "_rows", lambda sql, *rest: statements.append(sql) or rows(sql, *rest))
    return statements


def test_what_did_not_change_is_not_folded_again(api, writer, now, monkeypatch):
    monkeypatch.setattr(stored_metrics, "VALUES_AT_ONCE", 10)
    put(writer, "both", [r for n in range(100) for r in step(n, now - 400 + n, loss=1.0)])
    take_snapshot()
    before = api.results(PATH, names="loss:sum")
    statements = statements_of(monkeypatch)
    assert api.results(PATH, names="loss:sum") == before
    assert stored_metrics._SERIES_OF_ONE not in statements
    writer.operations(op(at=now - 300, step=41, metrics={"loss:sum": 9.0}), *step(100, now - 1, loss=2.0))
    writer.steps(101)
    take_snapshot()
    points = values(api.results(PATH, names="loss:sum")[0])
    assert statements.count(stored_metrics._SERIES_OF_ONE) == 2
    assert [(number, value) for number, value in points if value != 1.0] == [(41, 5.0), (100, 2.0)]
    writer.client.flushdb()
    StepAggregate.objects.filter(step=41).delete()
    assert 41 not in dict(values(api.results(PATH, names="loss:sum")[0]))


@KEPT
def test_a_step_without_the_metric_is_a_gap(api, writer, now, kept):
    records = [r for n in (0, 1, 5, 6) for r in step(n, now - 50 + n, loss=None if n == 5 else 1.0)]
    put(writer, kept, records)
    assert [number for number, _ in values(api.results(PATH, names="loss:sum")[0])] == [0, 1, 6]


@KEPT
def test_a_place_that_is_not_finite_is_marked_with_its_kind(api, writer, now, kept):
    kinds = {1: "nan", 3: "-inf"}
    records = []
    for n in range(5):
        odd = {"loss:sum": kinds[n]} if n in kinds else {}
        records += step(n, now - 50 + n, loss=None if odd else 1.0, nonfinite=odd)
    put(writer, kept, records)
    [each] = api.results(PATH, names="loss:sum")
    assert each["nonfinite"] == [
        {"step": 1, "count": 1, "kinds": ["nan"]},
        {"step": 3, "count": 1, "kinds": ["-inf"]},
    ]
    assert [number for number, _ in values(each)] == [0, 2, 4]
    assert each["is_nonfinite_capped"] is False


def test_where_op_rows_are_gone_the_place_stays_without_its_kind(api, writer, now):
    put(writer, "history", [op(OPTIM_STEP, at=now - 9, step=0, nonfinite={"grad_norm": "inf"})])
    Operation.objects.all().delete()
    [each] = api.results(PATH, names="grad_norm")
    assert (each["points"], each["nonfinite"]) == ([], [{"step": 0, "count": 1, "kinds": []}])


@KEPT
def test_steps_can_be_asked_for_from_and_to(api, writer, now, kept):
    put(writer, kept, [r for n in range(9) for r in step(n, now - 50 + n, loss=float(n))])
    answer = api.answer(PATH, names="loss:sum", **{"from": "3", "to": "5"})
    assert values(answer["results"][0]) == [(3, 3.0), (4, 4.0), (5, 5.0)]
    assert (answer["from"], answer["to"]) == (3, 5)
    assert api.answer(PATH, names="loss:sum", **{"from": "100"})["results"] == []


@KEPT
def test_without_names_the_answer_says_which_there_are(api, writer, now, kept):
    records = [r for n in range(3) for r in step(n, now - 50 + n, loss=1.0, grad=1.0)]
    put(writer, kept, records)
    answer = api.answer(PATH)
    assert answer["available"] == [
        {"operation": FORWARD_BACKWARD, "name": "loss:sum"}, {"operation": OPTIM_STEP, "name": "grad_norm"},
    ]  # fmt: skip
    assert answer["results"] == []


@KEPT
def test_a_name_may_be_that_of_one_op(api, writer, now, kept):
    records = [op(name, at=now - 9, step=0, metrics={"m.x": 1.0}) for name in ("forward", FORWARD_BACKWARD, OPTIM_STEP)]
    put(writer, kept, records)
    assert len(api.results(PATH, names="m.x")) == 3
    assert list(series(api.answer(PATH, names="forward.m.x"))) == [("forward", "m.x")]


def test_a_name_that_nothing_matches_is_told(api, writer, now):
    put(writer, "live", step(0, now - 9, loss=1.0))
    answer = api.answer(PATH, names="los:sum,loss:sum,optim_step.loss:sum")
    assert (answer["unmatched_names"], answer["count"]) == (["los:sum", "optim_step.loss:sum"], 1)


@KEPT
def test_what_follows_the_newest_optim_step_belongs_to_its_step(api, writer, now, kept):
    records = [*step(0, now - 9, loss=1.0), *step(1, now - 8, loss=2.0)]
    put(writer, kept, [*records, op("forward", at=now - 5, step=2, metrics={"loss:sum": 7.0})])
    answer = api.answer(PATH, names="loss:sum")
    assert values(series(answer)["forward", "loss:sum"]) == [(1, 7.0)]
    assert answer["to"] == 1


@KEPT
def test_records_of_others_are_counted_into_steps(api, writer, now, kept):
    names = (FORWARD_BACKWARD, OPTIM_STEP) * 3
    records = [foreign_op(name, at=now - 50 + n, metrics={"m": float(n)}) for n, name in enumerate(names)]
    writer.operations(*records[:3])
    if kept != "live":
        take_snapshot()
    writer.operations(*records[3:])
    if kept == "history":
        take_snapshot()
        writer.client.flushdb()
    assert values(series(api.answer(PATH, names="m"))[OPTIM_STEP, "m"]) == [(0, 1.0), (1, 3.0), (2, 5.0)]


def test_a_record_told_again_counts_once(api, writer, now):
    records = step(0, now - 9, loss=1.0)
    put(writer, "history", records)
    writer.operations(*records)
    assert api.results(PATH, names="loss:sum")[0]["points"][0]["count"] == 1


def test_monstrous_values_answer(api, writer, now):
    huge = [op(OPTIM_STEP, at=now - 9 + n, step=n % 2, metrics={"m": 1.7e308}) for n in range(4)]
    for kept in ("live", "history"):
        put(writer, kept, huge)
        assert api.results(PATH, names="m", points=1)[0]["points"][0]["max"] == 1.7e308


def test_a_run_without_ops_has_no_series(api, writer, now):
    writer.active(RUN, now)
    answer = api.answer(PATH, names="m")
    assert (answer["from"], answer["results"], answer["unmatched_names"]) == (None, [], ["m"])


@pytest.mark.parametrize(
    ("query", "attribute"),
    [
        ({"points": "0"}, "points"),
        ({"points": "2001"}, "points"),
        ({"from": "5", "to": "4"}, "to"),
        ({"from": "-1"}, "from"),
        ({"names": ",".join(f"m{n}" for n in range(21))}, "names"),
        ({"name": "loss"}, "name"),
        ({"cursor": "x"}, "cursor"),
    ],
)
def test_a_bad_parameter_is_refused_by_name(api, writer, now, query, attribute):
    writer.operations(op(at=now))
    assert api.refusal(PATH, **query)["attr"] == attribute


# --- Outages and cost -----------------------------------------------------------------------------------------
def test_with_redis_out_history_answers(api, writer, now, point_site_at, tmp_path):
    put(writer, "live", [r for n in range(4) for r in step(n, now - 50 + n, loss=1.0)])
    before = api.results(PATH, names="loss:sum")
    take_snapshot()
    point_site_at(f"unix://{tmp_path}/nothing.sock?db=0")
    answer = api.answer(PATH, names="loss:sum")
    assert answer["results"] == before
    assert (answer["coverage"]["live"], answer["coverage"]["source"]) == (False, "history")
    assert answer["as_of"] == answer["coverage"]["last_snapshot_at"] is not None


def test_with_postgres_out_redis_answers(api, writer, now, postgres_out):
    put(writer, "live", [r for n in range(4) for r in step(n, now - 50 + n, loss=1.0)])
    before = api.results(PATH, names="loss:sum")
    postgres_out()
    answer = api.answer(PATH, names="loss:sum")
    assert answer["results"] == before
    assert (answer["coverage"]["live"], answer["coverage"]["history"]) == (True, False)


@pytest.mark.parametrize("kept", ["both", "history"])
@pytest.mark.parametrize("query", ["", "?names=loss:sum"])
def test_an_answer_costs_as_much_for_many_steps_as_for_one(api, writer, now, monkeypatch, kept, query):
    costs = []
    for numbers in (range(1), range(1, 20)):
        put(writer, "live", [r for n in numbers for r in step(n, now - 50 + n, loss=1.0)])
        take_snapshot()
        if kept == "history":
            writer.client.flushdb()
        costs.append(cost_of(api, PATH + query, monkeypatch))
    assert costs[0] == costs[1]
    assert costs[1][0] <= 10
    assert costs[1][1] <= 6
