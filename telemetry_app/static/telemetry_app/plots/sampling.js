// Sampling by windows of time: answers a second, and how long they took.
import { axis, Plot } from "./plot.js";
import { tickTexts } from "./lanes.js";
import { duration, instant, number, unixSeconds, utc } from "./format.js";
import { colour, dash, ink, swatch } from "./palette.js";
import { legendOf } from "./legend.js";
import { tableOnDemand } from "./table.js";

const WINDOWS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400];
const MOST_WINDOWS = 240;

export function windowSeconds([since, until]) {
  return WINDOWS.find((seconds) => (until - since) / seconds <= MOST_WINDOWS) ?? 86_400;
}

export class SamplingPlots {
  constructor(rateFigure, latencyFigure, timeAxis) {
    this.rate = new Plot(rateFigure, timeAxis);
    this.latency = new Plot(latencyFigure, timeAxis);
    this.renew = [rateFigure, latencyFigure].map((figure) => tableOnDemand(figure, () => this.table()));
  }

  show(answer, times) {
    this.windows = answer.windows;
    this.seconds = answer.window_seconds;
    const { answered, failed } = answer.totals;
    if (!answered && !failed) {
      for (const plot of [this.rate, this.latency]) plot.say("No sampling request of this run was answered in this time.", { isOnly: true });
      return;
    }
    const x = this.windows.map((window) => unixSeconds(window.started_at) + this.seconds / 2);
    const column = (name) => this.windows.map((window) => window[name]);
    const failures = this.windows.map((window) => (window.failed ? window.failed / this.seconds : null));
    this.draw(this.rate, x, [column("answers_per_second"), failures], times, [["answered", 0], ["▲ failed", "bad"]], "answers a second", number);
    this.draw(this.latency, x, [column("mean_seconds"), column("max_seconds")], times, [["mean", 0], ["slowest", 1]], "took", duration);
    this.rate.say(`${number(answered)} answered${failed ? `, ▲ ${number(failed)} failed` : ", none failed"}; windows of ${duration(this.seconds)}.`);
    this.renew.forEach((renew) => renew());
  }

  draw(plot, x, columns, times, names, label, write) {
    const strokeOf = (mark) => (mark === "bad" ? ink().bad : colour(mark));
    plot.show({
      shape: label,
      data: [x, ...columns],
      scaleX: times,
      options: () => ({
        scales: { y: { range: (_, __, max) => [0, (max || 1) * 1.1] } },
        axes: [axis("", { size: 40, values: (_, ticks) => tickTexts(ticks), space: 90 }), axis(label, { size: 74, values: (_, ticks) => ticks.map(write) })],
        series: [{}, ...names.map(([name, mark]) => ({
          label: name, stroke: () => strokeOf(mark), width: 2, dash: mark === 1 ? dash(1) : undefined,
          points: { show: mark === "bad" ? true : undefined, size: mark === "bad" ? 7 : 5 },
        }))],
      }),
      describe: (index) => this.describe(index),
      legend: () => legendOf(names.map(([name, mark]) => [name, { stroke: strokeOf(mark), dash: mark === 1 ? dash(1) : [] }])),
    });
  }

  describe(index) {
    const window = this.windows[index];
    if (!window) return null;
    const start = unixSeconds(window.started_at);
    return {
      title: `${instant(start)}, ${duration(this.seconds)}`,
      rows: [
        ["answered", `${number(window.answered)}, ${number(window.answers_per_second)} a second`, swatch({ stroke: colour(0) })],
        ...(window.failed ? [["▲ failed", number(window.failed)]] : []),
        ["mean", duration(window.mean_seconds)], ["slowest", duration(window.max_seconds)],
        ...(window.tokens_per_second === null ? [] : [["tokens a second", number(window.tokens_per_second)]]),
        ["began", utc(start)],
      ],
    };
  }

  table() {
    return {
      columns: ["Window from", "Answered", "Failed", "Answers a second", "Mean", "Slowest"],
      rows: this.windows.map((window) => [
        instant(unixSeconds(window.started_at)), number(window.answered), number(window.failed),
        number(window.answers_per_second), duration(window.mean_seconds), duration(window.max_seconds),
      ]),
    };
  }
}
