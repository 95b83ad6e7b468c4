// The page of one worker: what it did over time.
import { Range } from "./range.js";
import { Toolbar } from "./toolbar.js";
import { LanesPlot } from "./lanes.js";
import { timeAxis } from "./axes.js";
import { withQuery } from "./address.js";
import { Latest, read } from "./source.js";
import { keepFresh } from "./freshness.js";
import { unixSeconds } from "./format.js";
import { lanesOfWorker, legendOfWorker } from "./worker_lanes.js";

const SETTLE_MILLISECONDS = 180;
const page = document.getElementById("worker-plots");
const { worker, base } = page.dataset;
const api = `/api/v1/inspect/workers/${encodeURIComponent(worker)}`;
const range = new Range({ byTime: true });
const toolbar = new Toolbar(page.querySelector(".p-toolbar"), range);
const lanes = new LanesPlot(page.querySelector('[data-plot="worker"]'), timeAxis(range));
const latest = new Latest();

async function load() {
  try {
    const found = await latest.run(readAll);
    if (found) show(found);
  } catch (error) {
    lanes.plot.say(error.message, { isBad: true });
  }
}

async function readAll(signal) {
  const [facts, events] = await Promise.all([
    read(api, signal),
    read(`${api}/events?page_size=500`, signal).catch((error) => {
      if (error.name === "AbortError") throw error;
      return null; // events are in PostgreSQL alone
    }),
  ]);
  range.timeBounds = lifeOf(facts, events?.results ?? []);
  const [since, until] = range.times ?? range.timeBounds;
  const query = { since: new Date(since * 1e3).toISOString(), until: new Date(until * 1e3 + 1e3).toISOString() };
  return { facts, events, turns: await read(withQuery(`${base}turns`, query), signal), times: [since, until] };
}

// From its start to now; of one that is gone to a little behind its end.
function lifeOf(facts, events) {
  const heartbeat = unixSeconds(facts.last_heartbeat_at);
  const started = unixSeconds(facts.started_at) ?? heartbeat - 60;
  if (!["exited", "lost"].includes(facts.health)) return [started, Math.max(started + 1, unixSeconds(facts.as_of))];
  const end = Math.max(heartbeat, ...events.map((event) => unixSeconds(event.at)));
  return [started, end + Math.max(5, (end - started) * 0.1)];
}

function show({ facts, turns, events, times }) {
  const shown = lanesOfWorker(facts, turns, events?.results ?? null, range.timeBounds, times);
  lanes.show(shown, times, () => legendOfWorker(shown));
  const sentences = [];
  if (turns.is_cut) sentences.push("Only the newest 1 000 turns are drawn: zoom in for the others.");
  if (!turns.live) sentences.push("Redis can't be read: turns since the newest snapshot are missing.");
  if (!turns.history || !events) sentences.push("PostgreSQL can't be read, as it is out or busy: what is older than Redis keeps is missing.");
  lanes.plot.say(sentences.join(" "));
  toolbar.tell();
}

let settle = null;
range.listen(() => {
  lanes.plot.preview(range.times ?? range.timeBounds);
  clearTimeout(settle);
  settle = setTimeout(load, SETTLE_MILLISECONDS);
});
keepFresh(null, load);
