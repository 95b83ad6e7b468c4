// The table of differences: a row for each run, each value with its distance from the first run's.
import { duration, number, shortened } from "./format.js";
import { swatch } from "./palette.js";
import { styleOf } from "./lines.js";

const COUNTED = /^(Steps|Failed ops)$|not finite$/; // per cent of these say nothing

// `runs`: [{runId, name, steps, metrics: Map(name -> series), failure}] in order.
export function fillDifferences(table, runs, metricNames) {
  const columns = [
    ["Steps", (run) => run.steps?.results.reduce((all, point) => all + point.steps_count, 0), number],
    ["Step time, mean", (run) => meanWall(run), duration],
    ["Slowest step", (run) => greatest(run.steps?.results.map((point) => point.wall_max_seconds)), duration],
    ["Failed ops", (run) => run.steps?.results.reduce((all, point) => all + failuresOf(point), 0), number],
    ...metricNames.flatMap((name) => [
      [`${name}, mean`, (run) => meanOf(run.metrics.get(name)), number],
      [`${name}, newest`, (run) => run.metrics.get(name)?.points.at(-1)?.last, number],
      [`${name}, not finite`, (run) => run.metrics.get(name)?.nonfinite.reduce((all, place) => all + place.count, 0), number],
    ]),
  ];
  const head = document.createElement("thead");
  head.append(rowOf("th", ["Run", ...columns.map(([name]) => name)]));
  const body = document.createElement("tbody");
  runs.forEach((run, index) => {
    const row = document.createElement("tr");
    const name = document.createElement("th");
    name.scope = "row";
    name.append(swatch(styleOf(index)), ` ${shortened(run.name, 36)}`);
    name.title = run.runId;
    row.append(name);
    for (const [title, valueOf, write] of columns) row.append(cell(valueOf(run), index && !COUNTED.test(title) ? valueOf(runs[0]) : null, write));
    if (run.failure) row.cells[1].textContent = run.failure;
    body.append(row);
  });
  table.tHead?.remove();
  table.tBodies[0]?.remove();
  table.append(head, body);
}

function cell(value, first, write) {
  const made = document.createElement("td");
  made.className = "t-number";
  made.textContent = write(value ?? null);
  if (Number.isFinite(value) && Number.isFinite(first) && first !== 0) {
    const part = ((value - first) / Math.abs(first)) * 100;
    const beside = document.createElement("span");
    beside.className = "t-muted";
    beside.textContent = ` ${part >= 0 ? "+" : "−"}${number(Math.abs(Number(part.toPrecision(3))))} %`;
    made.append(beside);
  }
  return made;
}

function rowOf(tag, texts) {
  const row = document.createElement("tr");
  for (const text of texts) {
    const made = document.createElement(tag);
    made.scope = "col";
    made.textContent = text;
    row.append(made);
  }
  return row;
}

function meanWall(run) {
  const timed = (run.steps?.results ?? []).filter((point) => point.wall_seconds !== null);
  return weighted(timed.map((point) => [point.wall_seconds, point.steps_count]));
}

function meanOf(series) {
  return weighted((series?.points ?? []).map((point) => [point.mean, point.count]));
}

function weighted(pairs) {
  const count = pairs.reduce((all, [, weight]) => all + weight, 0);
  return count ? pairs.reduce((all, [value, weight]) => all + value * weight, 0) / count : null;
}

function greatest(values) {
  const known = (values ?? []).filter((value) => value !== null);
  return known.length ? Math.max(...known) : null;
}

function failuresOf(point) {
  return Object.values(point.operations).reduce((all, times) => all + times.failures, 0);
}
