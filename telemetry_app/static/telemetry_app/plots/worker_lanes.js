// A worker's life as lanes: its health by its events, its GPU turns by workload, and the phase that it is in.
import { duration, instant, number, shortened, unixSeconds, utc, words } from "./format.js";
import { colour, fill, idleFill, missingFill, unknownFill, waitFill } from "./palette.js";

const AFTER = { started: "alive", recovered: "alive", late: "late", lost: "lost", exited: "exited" };
const LOOKS = {
  alive: () => colour(2), late: waitFill, lost: missingFill, exited: idleFill, unknown: unknownFill,
  hold: () => fill(0), wait: waitFill, phase: () => fill(4),
};
const WORDS = {
  alive: "alive", late: "late", lost: "lost", exited: "exited", unknown: "not known, or not drawn", hold: "held the GPU",
  wait: "waited for it", phase: "the phase it is in",
};

// `life`: from its start to its end or now; `times`: what is shown. Unix seconds. `events`: null where they can't be read.
export function lanesOfWorker(facts, turns, events, life, times) {
  return [healthLane(facts, events, life), phaseLane(facts, life), ...turnLanes(facts, turns, times)];
}

export function legendOfWorker(lanes) {
  const kinds = new Set(lanes.flatMap((lane) => lane.spans.map((span) => span.kind)));
  return Object.keys(WORDS).filter((kind) => kinds.has(kind)).map((kind) => [WORDS[kind], { fill: LOOKS[kind]() }]);
}

function span(kind, start, end, word, rows = () => []) {
  const all = () => [["from", moment(start)], ["to", moment(end)], ["for", duration(end - start)], ...rows()];
  return { kind, start, end, word, style: LOOKS[kind], isThin: kind === "wait", rows: all };
}

function healthLane(facts, events, [begin, end]) {
  const spans = [];
  const changes = [...(events ?? [])].reverse().map((event) => ({ at: unixSeconds(event.at), kind: AFTER[event.event], detail: event.detail }));
  if (!changes.length) {
    const seen = unixSeconds(facts.last_heartbeat_at);
    spans.push(span("unknown", begin, seen, "Not known", () => [["why", "no snapshot has looked at it yet"]]));
    changes.push({ at: seen, kind: facts.health });
  }
  changes.forEach((change, index) => {
    const until = changes[index + 1]?.at ?? end;
    const rows = () => (change.detail ? [["told", change.detail]] : []);
    if (until > change.at) spans.push(span(change.kind, change.at, until, change.kind, rows));
  });
  return { name: "health", spans };
}

// A worker tells the phase it is in; those before are known from its turns alone.
function phaseLane(facts, [begin, end]) {
  const since = unixSeconds(facts.phase_since);
  const isGone = ["exited", "lost"].includes(facts.health);
  const name = `phase${facts.phase ? `: ${words(facts.phase)}${isGone ? ", when it was heard last" : " now"}` : ""}`;
  const last = isGone ? unixSeconds(facts.last_heartbeat_at) : end;
  if (since === null || !facts.phase) return { name, spans: [span("unknown", begin, end, "Not known", () => [["why", "the worker told no phase"]])] };
  const before = span("unknown", begin, since, "Not known", () => [["why", "a worker tells the phase it is in, not those before"]]);
  const rows = () => (facts.current ? [["runs", facts.current.operation], ["of", shortened(facts.current.run_id ?? "no run", 32)]] : []);
  return { name, spans: [...(since > begin ? [before] : []), span("phase", Math.max(begin, since), Math.max(since, last), words(facts.phase), rows)] };
}

function turnLanes(facts, turns, [since]) {
  const byWorkload = new Map();
  const lane = (workload) => {
    if (!byWorkload.has(workload)) byWorkload.set(workload, { name: `GPU turns · ${shortened(workload, 32)}`, spans: [] });
    return byWorkload.get(workload).spans;
  };
  for (const turn of turns.results) {
    const [asked, start, end] = [turn.requested_at, turn.started_at, turn.ended_at].map(unixSeconds);
    if (asked !== null && start > asked) lane(turn.workload).push(span("wait", asked, start, "Waited"));
    lane(turn.workload).push(span("hold", start, end, "Held", () => turn.operations.map(operationRow)));
  }
  const { turn } = facts;
  if (turn && !["exited", "lost"].includes(facts.health)) {
    const [asked, start, now] = [turn.requested_at, turn.started_at, facts.as_of].map(unixSeconds);
    if (asked !== null) lane(turn.workload).push(span("wait", asked, start ?? now, start === null ? "Waits now" : "Waited"));
    if (start !== null) lane(turn.workload).push(span("hold", start, now, "Holds now"));
  }
  if (turns.is_cut) {
    const oldest = unixSeconds(turns.results[0].ended_at);
    for (const { spans } of byWorkload.values()) spans.unshift(span("unknown", since, oldest, "Not drawn"));
  }
  if (!byWorkload.size) byWorkload.set("", { name: "GPU turns: none recorded in this time", spans: [] });
  return [...byWorkload.values()];
}

function operationRow(op) {
  const run = op.run_id ? `, ${shortened(op.run_id, 28)}` : "";
  return [`${op.operation}${op.count > 1 ? ` × ${number(op.count)}` : ""}`, `${duration(op.seconds)}${run}${op.status === "failed" ? ", ▲ failed" : ""}`];
}

function moment(seconds) {
  return `${instant(seconds, { withFraction: true })} (${utc(seconds)})`;
}
