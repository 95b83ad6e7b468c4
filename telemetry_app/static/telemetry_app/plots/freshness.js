// Reads plots again when something happened, as often as the site bears it, while somebody looks.
import { onChange } from "../live.js";

const LEAST_MILLISECONDS = 3_000;
const MOST_MILLISECONDS = 15_000; // sampling and GPU turns are among no changes
const SHARE = 8; // what takes a second to read is read every eight seconds at most

// `run`: whose changes count, null for any run's; `load` must not fail.
export function keepFresh(run, load) {
  let isDue = false;
  let isResting = true;
  let timer = 0;
  const round = async () => {
    [isDue, isResting] = [false, false];
    const started = performance.now();
    await load();
    const rest = Math.max(LEAST_MILLISECONDS, SHARE * (performance.now() - started));
    setTimeout(() => {
      isResting = true;
      if (isDue) next();
    }, rest);
    clearTimeout(timer);
    timer = setTimeout(next, Math.max(MOST_MILLISECONDS, rest));
  };
  const next = () => {
    isDue = true;
    if (isResting && !document.hidden) round();
  };
  onChange(run, next);
  document.addEventListener("visibilitychange", () => isDue && next());
  round();
}
