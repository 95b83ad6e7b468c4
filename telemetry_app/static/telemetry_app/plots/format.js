// Numbers, durations and instants as texts, each with its unit; as `templatetags/telemetry.py` writes them.

const NARROW_SPACE = "\u202f";

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return whole(value);
  if (Math.abs(value) >= 1e3 && Math.abs(value) < 1e6) return whole(Math.round(value));
  if (Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-4)) return Number(value.toPrecision(4)).toExponential();
  return String(Number(value.toPrecision(4)));
}

function whole(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, NARROW_SPACE);
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${Number((seconds * 1e3).toPrecision(3))} ms`;
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  if (seconds >= 1e9) return `${seconds.toExponential(2)} s`;
  const total = Math.round(seconds);
  for (const [size, unit, below, smaller] of [[86_400, "d", 3_600, "h"], [3_600, "h", 60, "min"], [60, "min", 1, "s"]]) {
    if (total < size) continue;
    const rest = Math.floor((total % size) / below);
    return rest ? `${Math.floor(total / size)} ${unit} ${rest} ${smaller}` : `${Math.floor(total / size)} ${unit}`;
  }
  return `${total} s`;
}

// In the reader's time zone; `utc` says the same instant in UTC.
export function instant(seconds, { withDate = true, withFraction = false } = {}) {
  if (!Number.isFinite(seconds)) return "–";
  const options = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  if (withFraction) options.fractionalSecondDigits = 3;
  if (withDate) Object.assign(options, { year: "numeric", month: "short", day: "numeric" });
  return new Intl.DateTimeFormat(undefined, options).format(seconds * 1e3);
}

export function utc(seconds) {
  return Number.isFinite(seconds) ? `${new Date(seconds * 1e3).toISOString().slice(0, 19).replace("T", " ")} UTC` : "–";
}

export function unixSeconds(text) {
  return text ? Date.parse(text) / 1e3 : null;
}

export function steps(first, last) {
  return first === last ? `step ${number(first)}` : `steps ${number(first)} to ${number(last)}`;
}

// A name of the contract as words, as the pages write it.
export function words(name) {
  return name.split("_").map((word) => (word === "gpu" ? "GPU" : word)).join(" ");
}

export function shortened(text, length = 40) {
  const letters = [...text];
  if (letters.length <= length) return text;
  const half = Math.floor((length - 1) / 2);
  return `${letters.slice(0, half).join("")}…${letters.slice(-half).join("")}`;
}
