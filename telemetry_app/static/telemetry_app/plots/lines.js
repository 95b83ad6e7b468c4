// One value of several runs by step: a line for each, told apart by colour and dash.
import { axis, Plot } from "./plot.js";
import { middle, padded } from "./metric.js";
import { number, shortened, steps } from "./format.js";
import { colour, dash, swatch } from "./palette.js";
import { legendOf } from "./legend.js";
import { tableOnDemand } from "./table.js";

export class LinesPlot {
  // `write` turns a value into a text with its unit; `fromZero`: the axis begins at 0.
  constructor(figure, stepAxis, { label = "", write = number, fromZero = false } = {}) {
    this.plot = new Plot(figure, stepAxis);
    Object.assign(this, { label, write, fromZero });
    this.renewTable = tableOnDemand(figure, () => this.table());
  }

  // `lines`: [{name, points: [{step, last_step, value}]}], one for each run in the order of their colours.
  show(lines, [from, to]) {
    this.lines = lines;
    const places = new Map();
    for (const { points } of lines) for (const point of points) places.set(point.step, point);
    this.places = [...places.values()].sort((one, other) => one.step - other.step);
    if (!this.places.length) {
      this.plot.say("None of these runs has a value in these steps.", { isOnly: true });
      return;
    }
    this.columns = lines.map(({ points }) => {
      const values = new Map(points.map((point) => [point.step, point.value]));
      return this.places.map((place) => values.get(place.step) ?? null);
    });
    this.plot.show({
      shape: `lines ${lines.length}`,
      data: [this.places.map(middle), ...this.columns],
      scaleX: [from - 0.5, to + 0.5],
      options: () => this.options(),
      describe: (index) => this.describe(index),
      legend: () => legendOf(lines.map(({ name }, index) => [shortened(name, 36), styleOf(index)])),
    });
    this.renewTable();
  }

  options() {
    const { fromZero, write } = this;
    return {
      axes: [
        axis("step", { size: 30, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? number(tick) : "")) }),
        axis(this.label, { size: 74, values: (_, ticks) => ticks.map(write) }),
      ],
      scales: { y: { range: (_, least, greatest) => (fromZero ? [0, (greatest || 1) * 1.08] : padded(least, greatest)) } },
      series: [{}, ...this.lines.map((line, index) => ({
        label: line.name, stroke: () => colour(index), width: 2, dash: dash(index), points: { size: 5 },
      }))],
    };
  }

  describe(index) {
    const place = this.places[index];
    if (!place) return null;
    return {
      title: steps(place.step, place.last_step),
      rows: this.lines.map(({ name }, line) => [shortened(name, 30), this.write(this.columns[line][index]), swatch(styleOf(line))]),
    };
  }

  table() {
    return {
      columns: ["Steps", ...this.lines.map(({ name }) => shortened(name, 36))],
      rows: this.places.map((place, index) => [
        steps(place.step, place.last_step), ...this.columns.map((column) => this.write(column[index])),
      ]),
    };
  }
}

export function styleOf(index) {
  return { stroke: colour(index), dash: dash(index) };
}
