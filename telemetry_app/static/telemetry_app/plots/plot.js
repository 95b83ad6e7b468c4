// One plot: a uPlot in a figure, with what all plots share: size, theme, zoom, hover, keyboard, messages and a table.
/* global uPlot */
import { whenThemeChanges, ink } from "./palette.js";
import { zoomByPointer } from "./zoom.js";
import { moveByKeys } from "./keys.js";
import { Tooltip } from "./tooltip.js";

export class Plot {
  // `axis`: {unit: "step" | "time", show(from, to), reset()} shows another range in all plots of the page.
  constructor(figure, axis) {
    this.figure = figure;
    this.axis = axis;
    this.box = figure.querySelector(".p-box");
    this.note = figure.querySelector(".p-note");
    this.legend = figure.querySelector(".p-legend");
    this.tooltip = new Tooltip(this.box);
    this.chart = null;
    this.shape = null;
    zoomByPointer(this);
    moveByKeys(this);
    new ResizeObserver(() => this.resize()).observe(this.box);
    whenThemeChanges(() => this.rebuild());
  }

  // Shows data. `shape` tells which series there are: while it stays, the drawn chart takes new data and keeps its
  // cursor. `describe(index)` returns what a hover says: {title, rows: [[name, value]]}.
  show({ shape, data, scaleX, options, describe, legend }) {
    this.describe = describe;
    this.scaleX = scaleX;
    this.options = options;
    this.data = data;
    if (legend) this.legend?.replaceChildren(...legend());
    this.makeLegend = legend;
    this.say("");
    if (this.chart && this.shape === shape) {
      this.chart.batch(() => {
        this.chart.setData(data, false);
        this.chart.setScale("x", { min: scaleX[0], max: scaleX[1] });
        this.chart.redraw(true, true);
      });
    } else {
      this.shape = shape;
      this.rebuild();
    }
    this.figure.dataset.ready = "true";
  }

  // Shows another range of the data that are there, until those of that range are.
  preview(scaleX) {
    this.scaleX = scaleX;
    this.chart?.setScale("x", { min: scaleX[0], max: scaleX[1] });
  }

  rebuild() {
    if (!this.options) return;
    this.chart?.destroy();
    if (this.makeLegend) this.legend?.replaceChildren(...this.makeLegend());
    this.chart = new uPlot(this.fullOptions(), this.data, this.box);
    this.chart.setScale("x", { min: this.scaleX[0], max: this.scaleX[1] });
  }

  fullOptions() {
    const own = this.options();
    const hooks = { ...own.hooks };
    hooks.setSelect = [(chart) => this.zoomToSelection(chart)];
    hooks.setCursor = [...(own.hooks?.setCursor ?? []), (chart) => this.hover(chart)];
    return {
      width: Math.max(160, this.box.clientWidth),
      height: Math.max(100, this.box.clientHeight),
      legend: { show: false },
      ...own,
      hooks,
      scales: { ...own.scales, x: { time: false, ...own.scales?.x, range: () => this.scaleX } },
      cursor: {
        drag: { x: true, y: false, setScale: false },
        sync: this.axis ? { key: this.axis.unit, setSeries: false } : undefined,
        points: { size: 7 },
        ...own.cursor,
        bind: { mousedown: unzoomed, mousemove: unzoomed, mouseup: unzoomed, dblclick: () => () => this.axis?.reset() },
      },
    };
  }

  zoomToSelection(chart) {
    const { left, width } = chart.select;
    if (width < 3) return;
    chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.axis?.show(chart.posToVal(left, "x"), chart.posToVal(left + width, "x"));
  }

  hover(chart) {
    const { idx, left, top } = chart.cursor;
    const isHere = this.box.matches(":hover") || document.activeElement === this.box;
    const told = left >= 0 && isHere ? this.describe?.(idx, chart) : null;
    this.tooltip.show(told, left + chart.over.offsetLeft, top + chart.over.offsetTop);
  }

  resize() {
    if (!this.chart || !this.box.clientWidth) return;
    const size = { width: this.box.clientWidth, height: this.box.clientHeight };
    if (size.width !== this.chart.width || size.height !== this.chart.height) this.chart.setSize(size);
  }

  // A sentence in place of the plot (`isOnly`, or where none was drawn yet that it could stand beside) or beside it.
  say(sentence, { isOnly = false, isBad = false } = {}) {
    isOnly ||= isBad && !this.chart;
    this.note.textContent = sentence;
    this.note.hidden = !sentence;
    this.note.classList.toggle("p-bad", isBad);
    this.figure.classList.toggle("p-empty", isOnly);
    if (isOnly) this.figure.dataset.ready = "true";
  }
}

// On a wall the page is zoomed: where the pointer is comes in pixels of the screen, and uPlot counts in those of the page.
function unzoomed(chart, target, handle, isOnlyTarget = true) {
  return (event) => {
    if (event.button !== 0 || (isOnlyTarget && event.target !== target)) return undefined;
    const { left, top, width } = chart.over.getBoundingClientRect();
    const scale = width / chart.over.offsetWidth;
    if (!(Math.abs(scale - 1) > 0.02)) return handle(event);
    const { type, button, buttons, movementX, movementY } = event;
    const [clientX, clientY] = [left + (event.clientX - left) / scale, top + (event.clientY - top) / scale];
    return handle(new MouseEvent(type, { clientX, clientY, button, buttons, movementX, movementY }));
  };
}

// The look of an axis.
export function axis(label, options = {}) {
  const font = "12px Inter, system-ui, sans-serif";
  return {
    stroke: () => ink().text,
    grid: { stroke: () => ink().line, width: 1 },
    ticks: { stroke: () => ink().line, width: 1, size: 5 },
    font, labelFont: font, label, labelSize: label ? 18 : 0, labelGap: 0,
    ...options,
  };
}
