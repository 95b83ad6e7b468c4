// The page of one run: reads what its plots show, and keeps them on one range.
import { Range } from "./range.js";
import { Toolbar } from "./toolbar.js";
import { MetricChoice } from "./metric_choice.js";
import { StepTimePlot } from "./step_time.js";
import { MetricPlot } from "./metric.js";
import { FigureList } from "./figure_list.js";
import { GpuTurnsPlot } from "./gpu_turns.js";
import { SamplingPlots, windowSeconds } from "./sampling.js";
import { withQuery } from "./address.js";
import { Latest, read } from "./source.js";
import { SplitChoice } from "./split_choice.js";
import { keepFresh } from "./freshness.js";
import { unixSeconds } from "./format.js";
import { stepAxis, timeAxis } from "./axes.js";

const SETTLE_MILLISECONDS = 180; // a wheel turns on and on
const OFFER_MILLISECONDS = 30_000; // new metrics come seldom
const page = document.getElementById("run-plots");
const { runId, base } = page.dataset;
const api = `/api/v1/inspect/runs/${encodeURIComponent(runId)}`;
const figure = (name) => page.querySelector(`[data-plot="${name}"]`);

const range = new Range();
const [steps, times] = [stepAxis(range), timeAxis(range)];
const toolbar = new Toolbar(page.querySelector(".p-toolbar"), range);
const stepTime = new StepTimePlot(figure("step-time"), steps);
const metrics = new FigureList(page.querySelector(".p-metrics"), page.querySelector("#metric-figure"), (each) => new MetricPlot(each, steps));
const turns = new GpuTurnsPlot(figure("gpu-turns"), times, runId);
const sampling = new SamplingPlots(figure("sampling-rate"), figure("sampling-latency"), times);
const choice = new MetricChoice(page.querySelector(".p-choice"), () => loadMetrics());
const split = new SplitChoice(figure("step-time"), () => loadSteps());
const reading = { overview: new Latest(), steps: new Latest(), metrics: new Latest(), turns: new Latest(), samples: new Latest() };

async function load() {
  const isKnown = range.isWhole || range.overview.length > 0;
  if (!isKnown) await loadOverview();
  const isRead = await loadSteps();
  if (isRead || range.known.length) toolbar.tell();
  else toolbar.text.textContent = "Which steps there are can't be read";
  tellLinks();
  await loadMetrics(); // one after the other: a page left open must not crowd out others
  await loadSamples();
  await loadTurns();
}

async function loadOverview() {
  const answer = await attempt(stepTime.plot, () => reading.overview.run((signal) => read(`${base}step-times?points=400`, signal)));
  if (answer) learnWhole(answer);
}

async function loadSteps() {
  const [from, to] = range.shownSteps() ?? [];
  const path = withQuery(`${base}step-times`, { from, to, points: pointsOf(stepTime.plot, 4), split: split.word });
  const answer = await attempt(stepTime.plot, () => reading.steps.run((signal) => read(path, signal)));
  if (!answer) return false;
  if (from === undefined) learnWhole(answer);
  else range.learn(answer.results, false);
  stepTime.show(answer, [from ?? answer.from, to ?? answer.to]);
  return true;
}

function learnWhole(answer) {
  range.bounds = [answer.from, answer.to];
  range.timeBounds = lifetime(answer.results, answer.as_of);
  range.learn(answer.results, true);
}

function lifetime(points, asOf) {
  const state = document.getElementById("run-head").dataset;
  const ends = points.map((point) => unixSeconds(point.finished_at));
  const starts = points.map((point) => unixSeconds(point.started_at));
  const isOver = ["idle", "finished"].includes(state.state);
  const until = Math.max(unixSeconds(isOver ? state.lastActivity : asOf) ?? 0, ...ends);
  const since = Math.min(unixSeconds(state.firstSeen) ?? until - 60, ...starts);
  return [since, Math.max(until, since + 1)];
}

async function loadMetrics() {
  const shown = range.shownSteps() ?? [];
  const known = await attempt(metrics, () => reading.metrics.run(async (signal) => {
    if (performance.now() > offeredUntil) await offerMetrics(signal);
    const names = choice.names;
    const query = { names: names.join(","), from: shown[0], to: shown[1], points: metrics.pointsCount };
    return { names, answer: names.length ? await read(withQuery(`${api}/metrics`, query), signal) : null };
  }));
  if (!known) return;
  const series = new Map(known.answer?.results.map((each) => [`${each.operation}.${each.name}`, each]));
  const none = { points: [], nonfinite: [] };
  metrics.show(known.names, (plot, name) => plot.show(series.get(name) ?? none, known.answer.steps_per_point, shown.length ? shown : range.bounds));
}

let offeredUntil = 0;

async function offerMetrics(signal) {
  const { available } = await read(`${api}/metrics`, signal);
  choice.offer(available.map(({ operation, name }) => `${operation}.${name}`));
  if (available.length) offeredUntil = performance.now() + OFFER_MILLISECONDS;
}

async function loadTurns() {
  const shown = range.shownTimes() ?? range.timeBounds;
  const [since, until] = shown.map((seconds) => new Date(seconds * 1e3).toISOString());
  const link = page.querySelector("[data-gpus]");
  link.href = withQuery(link.pathname, { since, until: range.isWhole ? null : until });
  const found = await attempt(turns.plot, () => reading.turns.run((signal) => turns.load(shown, signal)));
  if (found) turns.show(found);
}

async function loadSamples() {
  const shown = range.shownTimes() ?? range.timeBounds;
  const [since, until] = shown.map((seconds) => new Date(seconds * 1e3).toISOString());
  const query = { since, until, window_seconds: windowSeconds(shown), page_size: 1 };
  const answer = await attempt([sampling.rate, sampling.latency], () => reading.samples.run((signal) => read(withQuery(`${api}/samples`, query), signal)));
  if (answer) sampling.show(answer, shown);
}

// What fails is said at its plots; what was drawn stays.
async function attempt(plots, task) {
  try {
    return await task();
  } catch (error) {
    for (const plot of [plots].flat()) plot.say(error.message, { isBad: true });
    return null;
  }
}

function pointsOf(plot, pixels) {
  return Math.min(2_000, Math.max(50, Math.round(plot.box.clientWidth / pixels)));
}

function tellLinks() {
  const [from, to] = range.shownSteps() ?? [];
  page.querySelector('[data-csv="step-time"]').href = withQuery(`${base}step-times.csv`, { from, to, points: pointsOf(stepTime.plot, 4), split: split.word });
  page.querySelector('[data-csv="metrics"]').href = withQuery(`${base}metrics.csv`, { names: choice.names.join(","), from, to, points: metrics.pointsCount });
}

let settle = null;
range.listen(() => {
  const [from, to] = range.shownSteps() ?? range.bounds;
  const shown = range.shownTimes() ?? range.timeBounds;
  for (const plot of [stepTime.plot, ...metrics.plots]) plot.preview([from - 0.5, to + 0.5]);
  for (const plot of [turns.plot, sampling.rate, sampling.latency]) plot.preview(shown);
  clearTimeout(settle);
  settle = setTimeout(load, SETTLE_MILLISECONDS);
});
range.timeBounds = lifetime([], new Date().toISOString()); // until step times tell it better, or where they can't be read
keepFresh(runId, load);
