// Keeps a page current without a reload. In any module of ours:
//   import { onChange } from "./live.js";
//   onChange(runId, (change) => draw());  // null: all runs; change.kind: step, failure, state, worker, missed or poll
// And without a line of code: an element with an id and `data-live` is exchanged, wherever it changed, from the page
// fetched again; what stands in an element with `data-live-keep` is left alone. A page about one run says so by
// `data-live-run`. `data-live-seconds` asks for a fetch so often, while something is under way.

import { exchange } from "./exchange.js";

const KINDS = ["step", "failure", "state", "worker", "missed"];
const LIVE_SECONDS = 12; // between two fetches while the stream tells of changes: snapshots and ages are not among them
const POLL_SECONDS = 5; // while there is no stream
const LEAST_SECONDS = 2; // between two fetches, however much happens
const SHARE = 10; // a page that takes long to make is fetched ten times as seldom as it takes
const RECONNECT_SECONDS = 30; // after the site refused the stream; a broken one the browser opens again by itself
const TIMEOUT_SECONDS = 12;

const listeners = [];
let stream = null;
let streamRun; // the run it is about, null for all
let state = "";
let timer = 0;
let dueAt = Infinity;
let lastAt = performance.now();
let lastTook = 0;

/**
 * Calls back after each change of a run, or of any run where it is null. While there is no stream, `poll` comes instead
 * every few seconds: something may have changed. A page has one connection, however many ask.
 */
export function onChange(run, callback) {
  listeners.push({ run, callback });
  queueMicrotask(connect);
}

function connect() {
  const wanted = [...new Set(listeners.map((listener) => listener.run))];
  const run = wanted.length === 1 ? wanted[0] : null;
  if (document.hidden || !wanted.length || (stream && streamRun === run)) return;
  close();
  streamRun = run;
  const path = run === null ? "events" : `runs/${encodeURIComponent(run)}/events`;
  const opened = new EventSource(`/api/v1/inspect/${path}`);
  stream = opened;
  opened.onopen = () => say("live");
  opened.onerror = () => {
    say(state === "stale" ? "stale" : "polling");
    schedule(POLL_SECONDS);
    if (opened.readyState === EventSource.CLOSED && stream === opened) {
      close();
      setTimeout(connect, RECONNECT_SECONDS * 1000);
    }
  };
  for (const kind of KINDS) opened.addEventListener(kind, (message) => tell(kind, JSON.parse(message.data)));
}

function close() {
  stream?.close();
  stream = null;
}

function tell(kind, data) {
  for (const { run, callback } of listeners) {
    const isAbout = run === null || data?.run_id === run || data?.runs?.includes(run) || !(data?.run_id || data?.runs);
    if (isAbout) callback({ kind, data });
  }
}

// --- The page fetched again -------------------------------------------------------------------------------------
const liveElements = () => document.querySelectorAll("[data-live][id]");

function spacing() {
  const asked = document.querySelector("[data-live-seconds]")?.dataset.liveSeconds;
  return asked ? Number(asked) : Math.min(LIVE_SECONDS, Math.max(LEAST_SECONDS, SHARE * lastTook));
}

function schedule(seconds) {
  const at = Math.max(performance.now() + seconds * 1000, lastAt + spacing() * 1000);
  if (at >= dueAt) return;
  dueAt = at;
  clearTimeout(timer);
  timer = setTimeout(refresh, at - performance.now());
}

async function refresh() {
  dueAt = Infinity;
  if (document.hidden || state === "signed-out") return; // once it is looked at, it goes on
  const began = performance.now();
  if (!stream || stream.readyState !== EventSource.OPEN) tell("poll", null);
  if (liveElements().length) await fetchPage();
  lastAt = performance.now();
  lastTook = (lastAt - began) / 1000;
  const asked = document.querySelector("[data-live-seconds]") ? spacing() : Infinity;
  schedule(Math.min(asked, state === "live" ? LIVE_SECONDS : POLL_SECONDS));
}

async function fetchPage() {
  try {
    const options = { headers: { "X-Requested-With": "live" }, signal: AbortSignal.timeout(TIMEOUT_SECONDS * 1000) };
    const answer = await fetch(location.href, options);
    if (answer.redirected && new URL(answer.url).pathname !== location.pathname) return say("signed-out");
    if (!answer.ok) return say("stale");
    show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (state === "stale") say(stream?.readyState === EventSource.OPEN ? "live" : "polling");
  } catch {
    say("stale"); // the site is away: what is shown stays, marked as old
  }
}

function show(fresh) {
  const selection = document.getSelection();
  for (const element of liveElements()) {
    const isSelected = !selection.isCollapsed && selection.containsNode(element, true);
    const found = fresh.querySelector(`[data-live][id="${CSS.escape(element.id)}"]`);
    if (found && !isSelected) exchange(element, found);
  }
  document.dispatchEvent(new CustomEvent("live:exchanged"));
}

// --- What the page says of itself -------------------------------------------------------------------------------
const WORDS = {
  live: "Live",
  polling: "Asks every few seconds",
  stale: "The site does not answer: this is old",
  "signed-out": "Signed out: load the page again",
};

function say(word) {
  if (state === word) return;
  state = word;
  document.documentElement.dataset.liveState = word;
  for (const place of document.querySelectorAll("[data-live-word]")) place.textContent = WORDS[word];
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return close(); // a browser has six connections to a site, and tabs stay open for days
  connect();
  tell("poll", null); // nobody heard what happened meanwhile
  schedule(0);
});

if (liveElements().length) {
  const run = document.querySelector("[data-live-run]")?.dataset.liveRun ?? null;
  onChange(run, (change) => change.kind !== "poll" && schedule(0));
  schedule(POLL_SECONDS);
}
