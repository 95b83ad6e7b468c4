// Step time as stacked bars: by op, or by the parts of the step clock (`step_parts.js`).
import { axis, Plot } from "./plot.js";
import { duration, instant, number, shortened, steps, unixSeconds } from "./format.js";
import { ink, swatch } from "./palette.js";
import { legendOf } from "./legend.js";
import { heightOf, partsByClock, partsByOp, waitsByPoint } from "./step_parts.js";
import { tableOnDemand } from "./table.js";

export class StepTimePlot {
  constructor(figure, stepAxis) {
    this.plot = new Plot(figure, stepAxis);
    this.renewTable = tableOnDemand(figure, () => this.table());
  }

  show(answer, [from, to]) {
    const points = (this.points = answer.results);
    const clock = answer.parts.length > 0;
    const width = answer.steps_per_point;
    this.parts = clock ? partsByClock(points) : partsByOp(points, answer.operations);
    this.waits = clock ? waitsByPoint(points) : null;
    if (!points.length) {
      this.plot.say("No op of these steps is kept.", { isOnly: true });
      return;
    }
    const heights = points.map((point, index) => heightOf(this.parts, index));
    const tops = points.map((point, index) => Math.max(heights[index], point.wall_max_seconds ?? 0));
    this.top = topOf(heights, tops);
    const queues = points.map((point) => (clock ? null : longestQueue(point)));
    this.plot.show({
      shape: `${clock} ${this.parts.length}`,
      data: [points.map((point) => (point.step + point.last_step) / 2), tops, queues],
      scaleX: [from - 0.5, to + 0.5],
      options: () => this.options(),
      describe: (index) => this.describe(index),
      legend: () => legendOf([
        ...this.parts.map((part) => [shortened(part.name, 30), { fill: part.fill() }]),
        ...(clock ? [] : [["longest queue before an op", { stroke: ink().text, dash: [3, 3] }]]),
        ...(width > 1 ? [[`slowest of a bar's ${number(width)} steps; the bar is their mean`, { stroke: ink().mark }]] : []),
        ...(Math.max(...tops) > this.top ? [["↑ beyond the axis", { stroke: ink().mark }]] : []),
      ]),
    });
    this.renewTable();
  }

  options() {
    return {
      scales: { y: { range: () => [0, this.top * 1.08] } },
      axes: [
        axis("step", { size: 30, values: (_, values) => values.map((value) => (Number.isInteger(value) ? number(value) : "")) }),
        axis("a step took", { size: 78, values: (_, values) => values.map(duration) }),
      ],
      series: [
        {},
        { label: "wall time", stroke: "transparent", paths: () => null, points: { show: false } },
        { label: "queue", stroke: () => ink().text, dash: [3, 3], width: 1.5, points: { show: false }, spanGaps: false },
      ],
      hooks: { drawAxes: [(chart) => this.drawBars(chart)] },
    };
  }

  drawBars(chart) {
    const { ctx } = chart;
    ctx.save();
    ctx.beginPath();
    ctx.rect(chart.bbox.left, chart.bbox.top, chart.bbox.width, chart.bbox.height);
    ctx.clip();
    const zero = chart.valToPos(0, "y", true);
    this.points.forEach((point, index) => {
      const left = chart.valToPos(point.step - 0.5, "x", true);
      const right = chart.valToPos(point.last_step + 0.5, "x", true);
      if (right < chart.bbox.left || left > chart.bbox.left + chart.bbox.width) return;
      const room = right - left > 6 ? Math.min(2, (right - left) * 0.15) : 0;
      const width = Math.max(1, right - left - room);
      let base = 0;
      this.parts.forEach((part) => {
        const [low, high] = [chart.valToPos(base, "y", true), chart.valToPos(base + part.values[index], "y", true)];
        ctx.fillStyle = part.fill();
        if (low > high) ctx.fillRect(left + room / 2, high, width, Math.min(low, zero) - high);
        base += part.values[index];
      });
      if (point.steps_count > 1 && point.wall_max_seconds !== null) {
        ctx.fillStyle = ink().mark;
        ctx.fillRect(left + room / 2, chart.valToPos(point.wall_max_seconds, "y", true) - 1, width, 2);
      }
      if (point.wall_max_seconds > this.top) arrow(ctx, left + room / 2 + width / 2, chart.bbox.top + 2);
      if (failuresOf(point)) triangle(ctx, left + room / 2 + width / 2, chart.bbox.top + 2);
    });
    ctx.restore();
  }

  describe(index) {
    const point = this.points[index];
    if (!point) return null;
    const rows = this.parts
      .map((part) => [part.name, duration(part.values[index]), swatch({ fill: part.fill() })])
      .filter(([, value]) => value !== "0 s")
      .reverse();
    for (const [text, runId, seconds] of this.waits?.[index].slice(0, 4) ?? []) {
      rows.push([`waited for ${shortened(text, 40)}`, runId ? `${duration(seconds)}, ${shortened(runId, 24)}` : duration(seconds)]);
    }
    for (const [name, times] of this.waits ? [] : Object.entries(point.operations)) {
      if (times.queue_seconds > 0) rows.push([`queue before ${shortened(name, 24)}`, `${duration(times.queue_seconds)} an op`]);
    }
    if (failuresOf(point)) rows.push(["▲ failed ops", number(failuresOf(point))]);
    const wall = point.steps_count > 1 ? `${duration(point.wall_seconds)} on average` : duration(point.wall_seconds);
    rows.unshift(["wall time", wall]);
    if (point.steps_count > 1) rows.splice(1, 0, ["slowest", `${duration(point.wall_max_seconds)}, step ${number(point.wall_max_step)}`]);
    rows.push(["ended", instant(unixSeconds(point.finished_at))]);
    return { title: titleOf(point), rows };
  }

  table() {
    const names = this.parts.map((part) => part.name);
    return {
      columns: ["Steps", "Wall time", "Slowest", ...names],
      rows: this.points.map((point, index) => [
        titleOf(point), duration(point.wall_seconds), `${duration(point.wall_max_seconds)} (step ${number(point.wall_max_step)})`,
        ...this.parts.map((part) => duration(part.values[index])),
      ]),
    };
  }
}

function titleOf(point) {
  const isOpen = point.open_count ? ", still open" : "";
  if (point.steps_count === 1) return `${steps(point.step, point.step)}${isOpen}`;
  return `${steps(point.step, point.last_step)}, ${number(point.steps_count)} of them${isOpen}`;
}

// Where the axis ends: a few steps that took a hundred times as long must not flatten all others.
function topOf(heights, tops) {
  const ordered = [...heights].sort((one, other) => one - other);
  const usual = ordered[Math.floor((ordered.length - 1) * 0.98)];
  const highest = Math.max(...tops);
  return usual > 0 && highest > 4 * usual ? 2.5 * usual : highest || 1;
}

function longestQueue(point) {
  const found = Object.values(point.operations).map((times) => times.queue_seconds);
  return found.length ? Math.max(...found) : null;
}

function failuresOf(point) {
  return Object.values(point.operations).reduce((all, times) => all + times.failures, 0);
}

function arrow(ctx, x, top) {
  ctx.strokeStyle = ink().mark;
  ctx.lineWidth = 2;
  ctx.beginPath();
  for (const [dx, dy] of [[-4, 5], [4, 5], [0, 12]]) {
    ctx.moveTo(x, top);
    ctx.lineTo(x + dx, top + dy);
  }
  ctx.stroke();
}

function triangle(ctx, x, top) {
  ctx.fillStyle = ink().bad;
  ctx.beginPath();
  ctx.moveTo(x, top);
  ctx.lineTo(x + 6, top + 10);
  ctx.lineTo(x - 6, top + 10);
  ctx.fill();
}
