// Instants as the reader wants them: ages go on by themselves, instants stand in the reader's own time zone, and both
// say on hover the local time and UTC. Without this module the page shows ages as of its making, and UTC.

const TICK_SECONDS = 1;
const local = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
  timeZoneName: "short",
});
const shortly = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

// The site's clock: the reader's own may be wrong, and ages would be, too.
const said = Number(document.querySelector("[data-server-time]")?.dataset.serverTime);
const aheadMilliseconds = said ? Date.now() - said * 1000 : 0;

/** Writes whole seconds as the pages do: `42 s`, `4 min 10 s`, `2 h 5 min`, `3 d`. */
export function span(seconds) {
  const units = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
  for (const [size, unit, below, smaller] of units) {
    if (seconds < size) continue;
    const rest = Math.floor((seconds % size) / below);
    return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${smaller}` : ""}`;
  }
  return `${seconds} s`;
}

function age(moment) {
  const seconds = Math.round((Date.now() - aheadMilliseconds - moment) / 1000);
  return seconds < -1 ? `in ${span(-seconds)}` : `${span(Math.max(0, seconds))} ago`;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function showAges() {
  if (document.hidden) return;
  for (const element of document.querySelectorAll("time[data-age]")) write(element, age(Date.parse(element.dateTime)));
}

function showAll() {
  for (const element of document.querySelectorAll("time[datetime]")) {
    const moment = Date.parse(element.dateTime);
    const utc = new Date(moment).toISOString().replace("T", " ").slice(0, 19);
    element.title = `${local.format(moment)} · ${utc} UTC`;
    if ("instant" in element.dataset) write(element, shortly.format(moment));
  }
  showAges();
}

showAll();
document.addEventListener("live:exchanged", showAll);
setInterval(showAges, TICK_SECONDS * 1000);
