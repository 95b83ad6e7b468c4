// A chosen plot by keyboard: arrows read its values, with Shift they move the range, + and - zoom, 0 shows all.
import { pan, zoom } from "./zoom.js";

export function moveByKeys(plot) {
  const { box } = plot;
  const spoken = document.createElement("p");
  spoken.className = "p-spoken";
  spoken.setAttribute("aria-live", "polite");
  box.after(spoken);
  const actions = {
    "+": () => zoom(plot, 1 / 1.5), "=": () => zoom(plot, 1 / 1.5), "-": () => zoom(plot, 1.5),
    0: () => plot.axis?.reset(), Escape: () => plot.tooltip.show(null),
  };
  box.addEventListener("keydown", (event) => {
    if (!plot.chart || event.ctrlKey || event.metaKey || event.altKey) return;
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const action = way ? () => (event.shiftKey ? pan(plot, way * 0.2) : read(plot, way, spoken)) : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  box.addEventListener("blur", () => plot.tooltip.show(null));
}

function read(plot, way, spoken) {
  const { chart, scaleX } = plot;
  const values = chart.data[0];
  const isShown = (index) => values[index] >= scaleX[0] && values[index] <= scaleX[1];
  const shown = values.map((_, index) => index).filter(isShown);
  if (!shown.length) return;
  const current = chart.cursor.left >= 0 ? shown.indexOf(chart.cursor.idx) : -1;
  const start = way > 0 ? 0 : shown.length - 1;
  const index = shown[current < 0 ? start : Math.min(shown.length - 1, Math.max(0, current + way))];
  chart.setCursor({ left: chart.valToPos(values[index], "x"), top: chart.over.clientHeight / 2 });
  const told = plot.describe?.(index, chart);
  spoken.textContent = told ? [told.title, ...told.rows.map(([name, value]) => `${name} ${value}`)].join(", ") : "";
}
