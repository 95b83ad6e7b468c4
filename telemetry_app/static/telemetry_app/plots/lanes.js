// Lanes of intervals over time, such as who held a GPU: drawn in a plot whose height follows from the lanes.
import { axis, Plot } from "./plot.js";
import { instant } from "./format.js";
import { ink } from "./palette.js";
import { legendOf } from "./legend.js";
import { tableOnDemand } from "./table.js";

const LANE = 46; // CSS pixels, of which the upper third holds the lane's name
const NAME = 17;
const AXIS = 44;

export class LanesPlot {
  constructor(figure, timeAxis) {
    this.plot = new Plot(figure, timeAxis);
    this.lanes = [];
    this.renewTable = tableOnDemand(figure, () => this.table());
  }

  // `lanes`: [{name, spans: [{start, end, style, word, rows}]}], spans oldest first in unix seconds; `style(span)`
  // returns a fill; `rows` what a hover tells.
  show(lanes, [since, until], legend) {
    this.lanes = lanes;
    this.marks = [...new Set(lanes.flatMap((lane) => lane.spans.map((span) => (span.start + span.end) / 2)))].sort((a, b) => a - b);
    this.plot.box.style.height = `${lanes.length * LANE + AXIS}px`;
    this.plot.show({
      shape: `lanes ${lanes.length}`,
      data: [this.marks.length ? this.marks : [since], new Array(Math.max(1, this.marks.length)).fill(null)],
      scaleX: [since, until],
      options: () => this.options(),
      describe: (index, chart) => this.describe(index, chart),
      legend: () => legendOf(legend()),
    });
    this.plot.resize();
    this.renewTable();
  }

  options() {
    return {
      axes: [axis("", { size: 40, values: (_, ticks) => tickTexts(ticks), space: 90 }), { show: false, size: 12 }],
      scales: { y: { range: () => [0, 1] } },
      series: [{}, { points: { show: false } }],
      padding: [0, 26, 0, 22],
      cursor: { y: false, points: { show: false } },
      hooks: { drawAxes: [(chart) => this.draw(chart)] },
    };
  }

  draw(chart) {
    const { ctx, bbox } = chart;
    const ratio = uPlot.pxRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.font = `${12 * ratio}px Inter, system-ui, sans-serif`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    this.lanes.forEach((lane, index) => {
      const top = bbox.top + index * LANE * ratio;
      ctx.fillStyle = ink().text;
      ctx.fillText(lane.name, bbox.left + 2, top + 3 * ratio, bbox.width);
      ctx.fillStyle = ink().soft;
      ctx.fillRect(bbox.left, top + NAME * ratio, bbox.width, (LANE - NAME - 5) * ratio);
      for (const span of lane.spans) this.drawSpan(chart, span, top);
    });
    ctx.restore();
  }

  drawSpan(chart, span, top) {
    const { ctx, bbox } = chart;
    const left = chart.valToPos(span.start, "x", true);
    const right = chart.valToPos(span.end, "x", true);
    if (right < bbox.left || left > bbox.left + bbox.width) return;
    const height = (LANE - NAME - 5) * uPlot.pxRatio * (span.isThin ? 0.5 : 1);
    ctx.fillStyle = span.style();
    ctx.fillRect(left, top + NAME * uPlot.pxRatio, Math.max(1, right - left), height);
  }

  describe(index, chart) {
    const { left, top } = chart.cursor;
    const isPointed = this.plot.box.matches(":hover");
    const time = isPointed ? chart.posToVal(left, "x") : this.marks[index];
    const near = chart.posToVal(2, "x") - chart.posToVal(0, "x");
    const lane = isPointed ? this.lanes[Math.floor(top / LANE)] : null;
    const covers = (span) => span.start - near <= time && time <= span.end + near;
    for (const each of lane ? [lane] : this.lanes) {
      const spans = each.spans.filter(covers);
      const found = spans.find((span) => span.start <= time && time <= span.end) ?? spans[0];
      if (found) return { title: `${found.word}: ${each.name}`, rows: found.rows() };
    }
    return lane ? { title: lane.name, rows: [["nothing recorded", instant(time)]] } : null;
  }

  table() {
    const rows = this.lanes.flatMap((lane) => lane.spans.map((span) => ({ start: span.start, lane, span })));
    rows.sort((one, other) => one.start - other.start);
    return {
      columns: ["Lane", "What", "From", "More"],
      rows: rows.map(({ lane, span }) => [
        lane.name, span.word, instant(span.start), span.rows().map(([name, value]) => `${name} ${value}`).join("; "),
      ]),
    };
  }
}

// Times of an axis in the reader's zone: the date where it changes, seconds where they differ.
export function tickTexts(ticks) {
  const isClose = ticks.length > 1 && ticks[1] - ticks[0] < 60;
  const isCloser = ticks.length > 1 && ticks[1] - ticks[0] < 1;
  let day = null;
  return ticks.map((tick) => {
    const moment = new Date(tick * 1e3);
    const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    if (isClose) options.second = "2-digit";
    if (isCloser) options.fractionalSecondDigits = 2;
    const text = new Intl.DateTimeFormat(undefined, options).format(moment);
    const today = moment.toDateString();
    const isNew = today !== day;
    day = today;
    return isNew ? `${text}\n${new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" }).format(moment)}` : text;
  });
}
