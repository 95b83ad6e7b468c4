// Colours that colour-blind people can tell apart (after Okabe and Ito, darkened or lightened for contrast with the
// page), each with a dash and a hatch of its own, so that colour never stands alone.

const LIGHT = ["#0063a3", "#c44e00", "#00795a", "#a3407a", "#75630a", "#4b5563"];
const DARK = ["#5bb5f0", "#ff9752", "#3ecf9f", "#f29ac5", "#e3d04f", "#b0b8c4"];
export const DASHES = [[], [8, 4], [2, 4], [12, 4, 2, 4], [5, 3, 1, 3, 1, 3], [1, 3]];
const HATCHES = ["plain", "rising", "dots", "falling", "level", "upright"];
const SIZE = 8; // of a hatch's tile, in device pixels

export function isDark() {
  return document.documentElement.classList.contains("dark");
}

export function whenThemeChanges(redraw) {
  new MutationObserver(redraw).observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
}

export function colour(index) {
  const colours = isDark() ? DARK : LIGHT;
  return colours[index % colours.length];
}

export function dash(index) {
  return DASHES[index % DASHES.length];
}

export function ink() {
  return isDark()
    ? { text: "#cbd5e1", mark: "#e2e8f0", line: "#334155", soft: "#1e293b", bad: "#fca5a5", wait: "#fcd34d", paper: "#0f172a" }
    : { text: "#475569", mark: "#1e293b", line: "#e2e8f0", soft: "#f1f5f9", bad: "#b91c1c", wait: "#a16207", paper: "#ffffff" };
}

// A fill for the series at `index`: its colour, hatched with the paper's colour from the second series on.
export function fill(index) {
  return pattern(colour(index), HATCHES[index % HATCHES.length]);
}

// What is no work: a pale ground with thin lines.
export function idleFill() {
  return pattern(isDark() ? "#3f4b5f" : "#d3dae4", "rising");
}

// What is there and is not drawn, or is not known.
export function unknownFill() {
  return pattern(ink().soft, "rising", ink().line);
}

// What is not kept any more.
export function forgottenFill() {
  return pattern(ink().soft, "level", ink().mark);
}

// Nobody was there.
export function missingFill() {
  return pattern(ink().bad, "upright");
}

export function waitFill() {
  return pattern(isDark() ? "#854d0e" : "#fde68a", "falling", ink().wait);
}

const made = new Map();

function pattern(ground, hatch, lines = isDark() ? "#0b1120aa" : "#ffffffaa") {
  const key = `${ground} ${hatch} ${lines}`;
  if (!made.has(key)) made.set(key, hatch === "plain" ? ground : tile(ground, hatch, lines));
  return made.get(key);
}

function tile(ground, hatch, lines) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SIZE;
  const context = canvas.getContext("2d");
  context.fillStyle = ground;
  context.fillRect(0, 0, SIZE, SIZE);
  context.strokeStyle = context.fillStyle = lines;
  context.lineWidth = 1.5;
  context.beginPath();
  const half = SIZE / 2;
  if (hatch === "rising") for (const x of [-half, half]) segment(context, x, SIZE, x + SIZE, 0);
  if (hatch === "falling") for (const x of [-half, half]) segment(context, x, 0, x + SIZE, SIZE);
  if (hatch === "level") segment(context, 0, half, SIZE, half);
  if (hatch === "upright") segment(context, half, 0, half, SIZE);
  if (hatch === "dots") context.fillRect(half - 1, half - 1, 2.5, 2.5);
  context.stroke();
  return context.createPattern(canvas, "repeat");
}

function segment(context, x0, y0, x1, y1) {
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
}

// The same look for a legend: an inline swatch, drawn as the plot draws it.
export function swatch(style) {
  const canvas = document.createElement("canvas");
  canvas.className = "p-swatch";
  canvas.width = 28;
  canvas.height = 14;
  canvas.setAttribute("aria-hidden", "true");
  const context = canvas.getContext("2d");
  if (style.fill) {
    context.fillStyle = style.fill;
    context.fillRect(0, 0, canvas.width, canvas.height);
  } else {
    context.strokeStyle = style.stroke;
    context.lineWidth = 3;
    context.setLineDash(style.dash ?? []);
    context.beginPath();
    segment(context, 0, 7, canvas.width, 7);
    context.stroke();
  }
  return canvas;
}
