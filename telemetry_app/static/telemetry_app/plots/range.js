// Which steps, or which time, all plots of a page show; kept in the page's address so that it can be sent on.
import { unixSeconds } from "./format.js";
import { readAddress, writeAddress } from "./address.js";

const LEAST_SECONDS = 0.05;

export class Range {
  // `byTime`: of a page that has no steps.
  constructor({ byTime = false } = {}) {
    this.byTime = byTime;
    this.listeners = [];
    this.known = []; // points of step times, oldest first: which step was at which time
    this.overview = []; // the same of the whole run
    this.bounds = [0, 0]; // steps of the whole run
    this.timeBounds = [0, 1]; // unix seconds of the whole run
    const given = readAddress();
    const [from, to] = [wholeNumber(given.get("from")), wholeNumber(given.get("to"))];
    const [since, until] = [unixSeconds(given.get("since")), unixSeconds(given.get("until"))];
    this.steps = from !== null && to !== null && from <= to ? [from, to] : null;
    this.times = !this.steps && since && until && since < until ? [since, until] : null;
  }

  get isWhole() {
    return !this.steps && !this.times;
  }

  listen(listener) {
    this.listeners.push(listener);
  }

  // A range that holds all there is, is none.
  setSteps(from, to) {
    const [least, most] = this.bounds;
    const first = Math.min(most, Math.max(least, from));
    const last = Math.max(first, Math.min(most, to));
    if (first <= least && last >= most) return this.reset();
    this.steps = [first, last];
    this.times = null;
    this.changed();
  }

  setTimes(since, until) {
    const [least, most] = this.timeBounds;
    const start = Math.min(most - LEAST_SECONDS, Math.max(least, since));
    const end = Math.max(start + LEAST_SECONDS, Math.min(most, until));
    if (start <= least && end >= most) return this.reset();
    this.times = [start, end];
    this.steps = null;
    this.changed();
  }

  reset() {
    if (this.isWhole) return;
    this.steps = this.times = null;
    this.changed();
  }

  changed() {
    writeAddress({
      from: this.steps?.[0], to: this.steps?.[1],
      since: this.times && isoText(this.times[0]), until: this.times && isoText(this.times[1]),
    });
    this.listeners.forEach((listener) => listener(this));
  }

  // Remember which step was at which time: of the whole run (`isWhole`), and of what is shown.
  learn(points, isWhole) {
    this.known = points
      .map((point) => ({
        first: point.step, last: Math.min(point.last_step, isWhole ? this.bounds[1] : Infinity),
        start: unixSeconds(point.started_at), end: unixSeconds(point.finished_at),
      }))
      .filter((point) => Number.isFinite(point.start) && Number.isFinite(point.end));
    if (isWhole) this.overview = this.known;
  }

  // The steps that the range means: null for all of them, or where it is not known which.
  shownSteps() {
    if (this.steps || !this.times || !this.overview.length) return this.steps;
    const [since, until] = this.times;
    const within = this.overview.filter((point) => point.end >= since && point.start <= until);
    if (!within.length) return null;
    const [oldest, newest] = [within[0], within[within.length - 1]];
    return [Math.floor(stepAt(oldest, Math.max(since, oldest.start))), Math.ceil(stepAt(newest, Math.min(until, newest.end)))];
  }

  // Whether it is a time into which no step of the run fell.
  get hasNoSteps() {
    return Boolean(this.times && this.overview.length && !this.shownSteps());
  }

  // The time that the range means: null for all of it, or where it is not known when.
  shownTimes() {
    if (this.times || !this.steps || !this.known.length) return this.times;
    const [from, to] = this.steps;
    const within = this.known.filter((point) => point.last >= from && point.first <= to);
    if (!within.length) return null;
    const [oldest, newest] = [within[0], within[within.length - 1]];
    const since = timeAt(oldest, Math.max(from, oldest.first));
    return [since, Math.max(since + 0.01, timeAt(newest, Math.min(to + 1, newest.last + 1)))];
  }
}

function stepAt(point, time) {
  const share = point.end > point.start ? (time - point.start) / (point.end - point.start) : 0;
  return Math.min(point.last, point.first + share * (point.last - point.first + 1));
}

function timeAt(point, step) {
  return point.start + ((step - point.first) / (point.last - point.first + 1)) * (point.end - point.start);
}

function wholeNumber(text) {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function isoText(seconds) {
  return new Date(seconds * 1e3).toISOString();
}
