// What a bar of step time is made of: the time in each op and the rest, or the parts of the step clock.
import { fill, idleFill, missingFill, unknownFill, waitFill } from "./palette.js";

const REST = "not in an op";
// In the clock's own order; each with its look, the same in every run.
const CLOCK = [
  ["training", "training", () => fill(0)], ["saving", "saving", () => fill(3)], ["gpu_switch", "GPU switch", () => fill(4)],
  ["gpu_wait", "GPU wait", () => waitFill()], ["queue", "queue", () => fill(1)], ["sampling", "sampling", () => fill(2)],
  ["client", "client", () => idleFill()], ["no_worker", "no worker", () => missingFill()],
  ["untracked", "not tracked", () => unknownFill()],
];

// Each part: {name, fill(), values}, from the ground up; values are seconds a step, one for each point.
export function partsByOp(points, operations) {
  const parts = operations.map((name) => ({ name, values: points.map((point) => point.operations[name]?.seconds ?? 0) }));
  parts.sort((one, other) => total(other.values) - total(one.values));
  parts.forEach((part, index) => { part.fill = () => fill(index); });
  const rest = points.map((point, index) => Math.max(0, (point.wall_seconds ?? 0) - heightOf(parts, index)));
  return total(rest) > 0 ? [...parts, { name: REST, fill: idleFill, values: rest }] : parts;
}

// `clock`: the steps of the API's step clock; several steps of one point count on average.
export function partsByClock(points, clock) {
  const steps = clockByPoint(points, clock);
  return CLOCK.map(([key, name, look]) => ({
    name, fill: look, values: steps.map((found) => (found.length ? total(found.map((step) => step.parts[key])) / found.length : 0)),
  })).filter(({ values }) => total(values) > 0);
}

// Who held the GPU while the steps of each point waited: [[text, seconds a step]], longest first.
export function waitsByPoint(points, clock) {
  return clockByPoint(points, clock).map((found) => {
    const seconds = new Map();
    for (const step of found) {
      for (const holder of step.gpu_wait_by) {
        const text = [holder.workload ?? "nobody", holder.operation].filter(Boolean).join(": ");
        const key = JSON.stringify([text, holder.run_id]);
        seconds.set(key, (seconds.get(key) ?? 0) + holder.seconds / found.length);
      }
    }
    return [...seconds].map(([key, value]) => [...JSON.parse(key), value]).sort((one, other) => other[2] - one[2]);
  });
}

function clockByPoint(points, clock) {
  const known = new Map(clock.filter((step) => step.parts).map((step) => [step.step, step]));
  return points.map((point) => {
    const found = [];
    for (let step = point.step; step <= point.last_step; step += 1) if (known.has(step)) found.push(known.get(step));
    return found;
  });
}

export function heightOf(parts, index) {
  return parts.reduce((all, part) => all + part.values[index], 0);
}

function total(values) {
  return values.reduce((all, value) => all + value, 0);
}
