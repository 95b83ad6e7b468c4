// The page that compares runs: the same steps of each, side by side.
import { Range } from "./range.js";
import { Toolbar } from "./toolbar.js";
import { MetricChoice } from "./metric_choice.js";
import { FigureList } from "./figure_list.js";
import { LinesPlot, styleOf } from "./lines.js";
import { fillDifferences } from "./differences.js";
import { withQuery } from "./address.js";
import { Latest, read } from "./source.js";
import { keepFresh } from "./freshness.js";
import { duration } from "./format.js";
import { stepAxis } from "./axes.js";
import { swatch, whenThemeChanges } from "./palette.js";

const SETTLE_MILLISECONDS = 180;
const page = document.getElementById("live-page");
const runs = [...page.querySelectorAll(".p-run")].map((element) => ({
  element, runId: element.dataset.runId, name: element.dataset.name, base: element.dataset.base,
  api: `/api/v1/inspect/runs/${encodeURIComponent(element.dataset.runId)}`, metrics: new Map(),
}));
const range = new Range();
const axis = stepAxis(range);
const toolbar = new Toolbar(page.querySelector(".p-toolbar"), range);
const stepTime = new LinesPlot(page.querySelector('[data-plot="step-time"]'), axis, { label: "a step took", write: duration, fromZero: true });
const metrics = new FigureList(page.querySelector(".p-metrics"), page.querySelector("#metric-figure"), (figure) => new LinesPlot(figure, axis));
const choice = new MetricChoice(page.querySelector(".p-choice"), () => load());
const latest = new Latest();

async function load() {
  await latest.run(async (signal) => {
    await readBounds(signal);
    toolbar.tell();
    const [from, to] = range.shownSteps() ?? range.bounds;
    const names = choice.names;
    await Promise.all(runs.map((run) => readRun(run, { from, to, points: pointsCount() }, names, signal)));
    show(names, [from, to]);
  });
}

// The same steps are asked of each run, so that their points are equally wide.
async function readBounds(signal) {
  const offered = new Set();
  await Promise.all(runs.map((run) => toldBy(run, async () => {
    const [known, { available }] = await Promise.all([
      read(`${run.base}step-times?points=50`, signal), read(`${run.api}/metrics`, signal),
    ]);
    run.bounds = known.results.length ? [known.from, known.to] : null;
    for (const { operation, name } of available) offered.add(`${operation}.${name}`);
  })));
  const known = runs.filter((run) => run.bounds).map((run) => run.bounds);
  if (known.length) range.bounds = [Math.min(...known.map(([from]) => from)), Math.max(...known.map(([, to]) => to))];
  choice.offer([...offered].sort());
}

async function readRun(run, query, names, signal) {
  await toldBy(run, async () => {
    const [steps, answer] = await Promise.all([
      read(withQuery(`${run.base}step-times`, query), signal),
      names.length ? read(withQuery(`${run.api}/metrics`, { ...query, names: names.join(",") }), signal) : { results: [] },
    ]);
    run.steps = steps;
    run.metrics = new Map(answer.results.map((series) => [`${series.operation}.${series.name}`, series]));
  });
}

// What fails is said beside the run; the others are shown all the same.
async function toldBy(run, reading) {
  try {
    await reading();
    run.failure = null;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    run.failure = error.message;
  }
}

function show(names, shown) {
  const bad = runs.filter((run) => run.failure).map((run) => `${run.name}: ${run.failure}`);
  if (bad.length === runs.length) { // none of them is without values: they can't be read
    for (const plot of [stepTime.plot, metrics]) plot.say(bad.join(" "), { isBad: true });
    return;
  }
  stepTime.show(runs.map((run) => ({
    name: run.name, points: (run.steps?.results ?? []).map((point) => ({ ...point, value: point.wall_seconds })),
  })), shown);
  if (bad.length) stepTime.plot.say(bad.join(" "), { isBad: true });
  metrics.show(names, (plot, name) => plot.show(runs.map((run) => ({
    name: run.name, points: (run.metrics.get(name)?.points ?? []).map((point) => ({ ...point, value: point.mean })),
  })), shown));
  fillDifferences(page.querySelector(".p-differences"), runs, names);
}

function pointsCount() {
  return Math.min(1_000, Math.max(100, Math.round(stepTime.plot.box.clientWidth / 2)));
}

function mark() {
  runs.forEach((run, index) => run.element.querySelector(".p-run-mark").replaceChildren(swatch(styleOf(index))));
}

let settle = null;
range.listen(() => {
  const [from, to] = range.shownSteps() ?? range.bounds;
  for (const plot of [stepTime.plot, ...metrics.plots]) plot.preview([from - 0.5, to + 0.5]);
  clearTimeout(settle);
  settle = setTimeout(load, SETTLE_MILLISECONDS);
});
mark();
whenThemeChanges(mark);
keepFresh(null, load);
