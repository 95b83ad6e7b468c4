// What a bar of step time is made of: the time in each op and the rest, or the parts of the step clock.
import { fill, forgottenFill, idleFill, missingFill, unknownFill, waitFill } from "./palette.js";

const REST = "not in an op";
const UNKNOWN = "not kept";
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

// Several steps of one point count on average; where nobody knows where their time went, it is a part of its own.
export function partsByClock(points) {
  const parts = CLOCK.map(([key, name, look]) => ({ name, fill: look, values: points.map((point) => point.parts?.[key] ?? 0) }));
  const unknown = points.map((point) => (point.parts ? 0 : point.wall_seconds ?? 0));
  return [...parts, { name: UNKNOWN, fill: forgottenFill, values: unknown }].filter(({ values }) => total(values) > 0);
}

// Who held the GPU while the steps of each point waited: [[text, run, seconds a step]], longest first.
export function waitsByPoint(points) {
  return points.map((point) => point.gpu_wait_by.map((holder) => [
    [holder.workload ?? "nobody", holder.operation].filter(Boolean).join(": "), holder.run_id, holder.seconds,
  ]));
}

export function heightOf(parts, index) {
  return parts.reduce((all, part) => all + part.values[index], 0);
}

function total(values) {
  return values.reduce((all, value) => all + value, 0);
}
