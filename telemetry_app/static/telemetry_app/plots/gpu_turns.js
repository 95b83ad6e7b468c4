// A run's GPU turns as a timeline: its waits and holds, and the turns of the runs that it waited for.
import { LanesPlot } from "./lanes.js";
import { duration, instant, number, shortened, unixSeconds, utc } from "./format.js";
import { fill, unknownFill, waitFill } from "./palette.js";
import { pageOf, withQuery } from "./address.js";
import { read } from "./source.js";

const PAGE = 500;
const NEIGHBOURS = 2; // drawn beside it, those that it waited for longest

export class GpuTurnsPlot {
  constructor(figure, timeAxis, runId) {
    this.lanes = new LanesPlot(figure, timeAxis);
    this.plot = this.lanes.plot;
    this.runId = runId;
  }

  async load([since, until], signal) {
    const own = await turnsOf(this.runId, since, until, signal);
    const neighbours = neighboursOf(own.results, own.current, this.runId).slice(0, NEIGHBOURS);
    const others = await Promise.all(
      neighbours.map((runId) => turnsOf(runId, since, until, signal).catch((error) => {
        if (error.name === "AbortError") throw error;
        return null; // retention may have removed the run: its turns stay unknown
      })),
    );
    return { own, neighbours, others, times: [since, until] };
  }

  show({ own, neighbours, others, times }) {
    if (!own.results.length && !own.current.length) {
      this.plot.say("No GPU turn of this run was recorded in this time.", { isOnly: true });
      return;
    }
    const now = unixSeconds(own.as_of);
    const lanes = lanesOf(own, "this run", times[0], now, 0);
    neighbours.forEach((runId, index) => {
      if (others[index]) lanes.push(...lanesOf(others[index], shortened(runId, 28), times[0], now, index + 1));
    });
    this.lanes.show(lanes, times, () => [
      ["waits for the GPU", { fill: waitFill() }], ["holds it", { fill: fill(0) }],
      ...neighbours.map((runId, index) => [`${shortened(runId, 28)} holds it`, { fill: fill(index + 1) }, pageOf("run", runId)]),
      ...(own.isCut ? [["not drawn: zoom in", { fill: unknownFill() }]] : []),
    ]);
    this.plot.say(this.summary(own, others.includes(null)));
  }

  summary(own, isAnyUnknown) {
    const waits = own.results.reduce((all, turn) => all + (turn.wait_seconds ?? 0), 0);
    const holds = own.results.reduce((all, turn) => all + turn.hold_seconds, 0);
    const sentences = [`${number(own.results.length)} turns: held ${duration(holds)}, waited ${duration(waits)}.`];
    if (own.isCut) sentences.push(`Only the newest ${number(own.results.length)} of ${number(own.total)}${own.isCapped ? " or more" : ""} turns are drawn: zoom in for the others.`);
    if (isAnyUnknown) sentences.push("The turns of one neighbour can't be read any more.");
    if (!own.live) sentences.push("Redis can't be read: turns since the newest snapshot are missing.");
    return sentences.join(" ");
  }
}

// The newest turns of a run in a time.
async function turnsOf(runId, since, until, signal) {
  const path = `/api/v1/inspect/runs/${encodeURIComponent(runId)}/turns`;
  const query = { since: new Date(since * 1e3).toISOString(), until: new Date(until * 1e3 + 1e3).toISOString(), page_size: PAGE };
  const answer = await read(withQuery(path, query), signal);
  return {
    ...answer, isCut: Boolean(answer.next), total: answer.total_matching, isCapped: answer.is_total_capped,
    live: answer.coverage.live,
  };
}

// The runs that were waited for, the one that took longest first.
function neighboursOf(turns, current, runId) {
  const seconds = new Map();
  const add = (id, more) => id && id !== runId && seconds.set(id, (seconds.get(id) ?? 0) + more);
  for (const turn of turns) for (const holder of turn.waited_for) holder.run_ids.forEach((id) => add(id, holder.seconds));
  for (const turn of current) turn.held_by.forEach((holder) => add(holder.run_id, turn.wait_seconds ?? 1));
  return [...seconds].sort((one, other) => other[1] - one[1]).map(([id]) => id);
}

// A lane for each workload that ran ops of a run; the run's own lanes have its waits, too.
function lanesOf(answer, name, since, now, colourIndex) {
  const isOwn = colourIndex === 0;
  const byWorkload = new Map();
  const lane = (workload) => {
    if (!byWorkload.has(workload)) byWorkload.set(workload, { name: `${name} · ${shortened(workload, 28)}`, spans: [] });
    return byWorkload.get(workload);
  };
  for (const turn of [...answer.results].reverse()) {
    const { spans } = lane(turn.workload);
    const [asked, start, end] = [turn.requested_at, turn.started_at, turn.ended_at].map(unixSeconds);
    if (isOwn && asked !== null && start > asked) spans.push(waitSpan(asked, start, turn));
    spans.push({ start, end, word: "Held", style: () => fill(colourIndex), rows: () => holdRows(turn, end) });
  }
  for (const turn of answer.current) {
    const { spans } = lane(turn.workload);
    const [asked, start] = [turn.requested_at, turn.started_at].map(unixSeconds);
    if (isOwn && asked !== null) spans.push(currentWait(asked, start ?? now, turn, start === null));
    if (start !== null) spans.push({ start, end: now, word: "Holds now", style: () => fill(colourIndex), rows: () => [["since", moment(start)], ["for", duration(now - start)]] });
  }
  const lanes = [...byWorkload.values()];
  if (answer.isCut) for (const { spans } of lanes) spans.unshift(undrawn(since, unixSeconds(answer.results.at(-1).ended_at)));
  return lanes;
}

function undrawn(start, end) {
  return { start, end, word: "Not drawn", style: unknownFill, rows: () => [["zoom in", "to see these turns"]] };
}

function waitSpan(start, end, turn) {
  const rows = () => [
    ["from", moment(start)], ["waited", duration(end - start)],
    ...turn.waited_for.map((holder) => [`for ${shortened(holder.workload, 24)}`, `${duration(holder.seconds)}${holder.operations.length ? `, which ran ${holder.operations.join(", ")}` : ""}`]),
    ...turn.waited_for.flatMap((holder) => holder.run_ids.map((id) => ["of run", shortened(id, 36)])),
  ];
  return { start, end, word: "Waited", style: waitFill, isThin: true, rows };
}

function currentWait(start, end, turn, isOpen) {
  const rows = () => [
    ["since", moment(start)], ["for", duration(end - start)],
    ...turn.held_by.map((holder) => [`held by ${shortened(holder.workload, 24)}`, `${holder.operation ?? "no op known"}, since ${instant(unixSeconds(holder.started_at), { withDate: false })}`]),
  ];
  return { start, end, word: isOpen ? "Waits now" : "Waited", style: waitFill, isThin: true, rows };
}

function holdRows(turn, end) {
  return [
    ["until", moment(end)], ["held", duration(turn.hold_seconds)],
    ...(turn.switch_seconds ? [["of it waking, sleeping, weights", duration(turn.switch_seconds)]] : []),
    ...turn.operations.map((op) => [`${op.operation}${op.count > 1 ? ` × ${op.count}` : ""}`, `${duration(op.seconds)}${op.status === "failed" ? ", ▲ failed" : ""}`]),
    ...(turn.other_operations_count ? [["ops of other runs", number(turn.other_operations_count)]] : []),
  ];
}

function moment(seconds) {
  return `${instant(seconds, { withFraction: true })} (${utc(seconds)})`;
}
