// Zoom by wheel (with Ctrl, or with the plot chosen), by a pinch on a touch pad, and by two fingers on a screen.

const STEP = 1.25; // one notch of a wheel

export function zoomByPointer(plot) {
  const { box } = plot;
  box.addEventListener("wheel", (event) => onWheel(plot, event), { passive: false });
  const fingers = new Map();
  box.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch") fingers.set(event.pointerId, event.clientX);
  });
  box.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return;
    const before = [...fingers.values()];
    fingers.set(event.pointerId, event.clientX);
    if (fingers.size === 2) pinch(plot, before, [...fingers.values()]);
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
    box.addEventListener(name, (event) => fingers.delete(event.pointerId));
  }
}

// Shows `factor` times as much as now, with what is at `share` of the width staying there.
export function zoom(plot, factor, share = 0.5) {
  if (!plot.axis || !plot.scaleX) return;
  const [min, max] = plot.scaleX;
  const anchor = min + share * (max - min);
  plot.axis.show(anchor - (anchor - min) * factor, anchor + (max - anchor) * factor);
}

export function pan(plot, share) {
  if (!plot.axis || !plot.scaleX) return;
  const [min, max] = plot.scaleX;
  const way = share * (max - min);
  plot.axis.show(min + way, max + way);
}

function onWheel(plot, event) {
  const isChosen = event.ctrlKey || event.metaKey || document.activeElement === plot.box;
  if (!plot.chart || !plot.axis || !isChosen) return;
  event.preventDefault();
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(plot, Math.sign(event.deltaX) * 0.1);
  else zoom(plot, event.deltaY > 0 ? STEP : 1 / STEP, shareAt(plot, event.clientX));
}

function pinch(plot, before, after) {
  const [apart, now] = [Math.abs(before[0] - before[1]), Math.abs(after[0] - after[1])];
  if (apart > 20 && now > 20) zoom(plot, apart / now, shareAt(plot, (after[0] + after[1]) / 2));
}

function shareAt(plot, clientX) {
  const over = plot.chart.over.getBoundingClientRect();
  return Math.min(1, Math.max(0, (clientX - over.left) / over.width));
}
