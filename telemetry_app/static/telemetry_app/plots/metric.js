// One metric by step: its mean as a line, least to greatest as a band; gaps and non-finite values where they are.
import { axis, Plot } from "./plot.js";
import { number, steps } from "./format.js";
import { colour, idleFill, ink, swatch } from "./palette.js";
import { legendOf } from "./legend.js";
import { tableOnDemand } from "./table.js";

export class MetricPlot {
  constructor(figure, stepAxis) {
    this.plot = new Plot(figure, stepAxis);
    this.renewTable = tableOnDemand(figure, () => this.table());
  }

  // `series`: one of the API's; `width`: steps a point.
  show(series, width, [from, to]) {
    this.series = series;
    this.points = withGaps(series.points, width);
    if (!series.points.length && !series.nonfinite.length) {
      this.plot.say("No value was reported in these steps.", { isOnly: true });
      return;
    }
    const column = (name) => this.points.map((point) => point[name] ?? null);
    this.plot.show({
      shape: "metric",
      data: [this.points.map(middle), column("max"), column("min"), column("mean")],
      scaleX: [from - 0.5, to + 0.5],
      options: () => this.options(),
      describe: (index, chart) => this.describe(index, chart),
      legend: () => this.legend(),
    });
    this.renewTable();
  }

  options() {
    const stroke = () => colour(0);
    return {
      axes: [
        axis("", { size: 28, values: (_, values) => values.map((value) => (Number.isInteger(value) ? number(value) : "")) }),
        axis("", { size: 64, values: (_, values) => values.map(number) }),
      ],
      scales: { y: { range: (_, least, greatest) => padded(least, greatest) } },
      series: [
        {},
        { label: "greatest", stroke: "transparent", points: { show: false } },
        { label: "least", stroke: "transparent", points: { show: false } },
        { label: "mean", stroke, width: 2, points: { size: 5, fill: stroke } },
      ],
      bands: [{ series: [1, 2], fill: () => `${colour(0)}33` }],
      hooks: { drawAxes: [(chart) => this.drawGaps(chart)], draw: [(chart) => this.drawNonfinite(chart)] },
    };
  }

  legend() {
    const entries = [["mean", { stroke: colour(0) }], ["least to greatest", { fill: `${colour(0)}55` }]];
    if (this.points.some((point) => point.isGap)) entries.push(["no value reported", { fill: idleFill() }]);
    if (this.series.nonfinite.length) entries.push(["▲ not finite", { stroke: ink().bad, dash: [4, 3] }]);
    return legendOf(entries);
  }

  drawGaps(chart) {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.fillStyle = idleFill();
    for (const gap of this.points.filter((point) => point.isGap)) {
      const left = Math.max(bbox.left, chart.valToPos(gap.step - 0.5, "x", true));
      const right = Math.min(bbox.left + bbox.width, chart.valToPos(gap.last_step + 0.5, "x", true));
      if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
    }
    ctx.restore();
  }

  drawNonfinite(chart) {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = ink().bad;
    ctx.lineWidth = 1.5;
    ctx.setLineDash([4, 3]);
    for (const { step } of this.series.nonfinite) {
      const x = chart.valToPos(step, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x + 6, bbox.top + 10);
      ctx.lineTo(x - 6, bbox.top + 10);
      ctx.fill();
    }
    ctx.restore();
  }

  describe(index, chart) {
    const point = this.points[index];
    if (!point) return null;
    const width = (point.last_step - point.step + 1) / 2;
    const near = Math.max(width, (chart.posToVal(6, "x") - chart.posToVal(0, "x")) || 0);
    const rows = this.series.nonfinite
      .filter(({ step }) => Math.abs(step - middle(point)) <= near)
      .slice(0, 5)
      .map((place) => [`▲ step ${number(place.step)}`, `${place.kinds.join(", ") || "not finite"}${place.count > 1 ? ` × ${place.count}` : ""}`]);
    if (point.isGap) return { title: steps(point.step, point.last_step), rows: [["no value", "reported"], ...rows] };
    const isOne = point.count === 1;
    const values = isOne
      ? [["value", String(point.last), swatch({ stroke: colour(0) })]]
      : [
        ["greatest", `${point.max}, step ${number(point.max_step)}`],
        ["mean", String(point.mean), swatch({ stroke: colour(0) })],
        ["least", `${point.min}, step ${number(point.min_step)}`],
        ["newest", String(point.last)],
        ["values", number(point.count)],
      ];
    return { title: steps(point.step, point.last_step), rows: [...values, ...rows] };
  }

  table() {
    const places = this.series.nonfinite.map((place) => [
      steps(place.step, place.step), "–", place.kinds.join(", ") || "not finite", "–", "–",
    ]);
    const rows = this.series.points.map((point) => [
      steps(point.step, point.last_step), number(point.min), number(point.mean), number(point.max), number(point.last),
    ]);
    return { columns: ["Steps", "Least", "Mean", "Greatest", "Newest"], rows: [...rows, ...places] };
  }
}

export function middle(point) {
  return (point.step + point.last_step) / 2;
}

// The points, with one without values in each gap between them: where more is missing than the metric usually leaves
// out, as one that is reported with every tenth step does.
export function withGaps(points, width) {
  const distances = points.slice(1).map((point, index) => point.step - points[index].step).sort((one, other) => one - other);
  const usual = Math.max(width, distances[Math.floor(distances.length / 2)] ?? 0);
  const found = [];
  for (const point of points) {
    const before = found[found.length - 1];
    if (before && point.step - before.step > 2 * usual) {
      found.push({ step: before.last_step + 1, last_step: point.step - 1, isGap: true });
    }
    found.push(point);
  }
  return found;
}

export function padded(least, greatest) {
  if (least === null || greatest === null) return [0, 1];
  const size = Math.max(Math.abs(least), Math.abs(greatest));
  const isFlat = greatest - least <= size * 1e-9; // but for rounding
  const room = isFlat ? size * 0.1 || 1 : (greatest - least) * 0.06;
  return [least - room, greatest + room];
}
