// The row of buttons above the plots: what is shown, and other ranges.
import { instant, number, utc } from "./format.js";

const NEWEST = 100; // steps
const RECENT_SECONDS = 600;

export class Toolbar {
  constructor(element, range) {
    this.range = range;
    this.text = element.querySelector(".p-range");
    const actions = {
      all: () => range.reset(),
      newest: () => range.setSteps(Math.max(range.bounds[0], range.bounds[1] - NEWEST + 1), range.bounds[1]),
      recent: () => range.setTimes(range.timeBounds[1] - RECENT_SECONDS, range.timeBounds[1]),
      in: () => this.zoom(0.5), out: () => this.zoom(2), back: () => this.pan(-0.5), on: () => this.pan(0.5),
    };
    element.addEventListener("click", (event) => actions[event.target.closest("[data-do]")?.dataset.do]?.());
    this.buttons = element.querySelectorAll("[data-do]");
    range.listen(() => this.tell());
  }

  // What is shown, with what there is: times where the range is one of times, else steps.
  get span() {
    const { range } = this;
    if (range.times || range.byTime) return [range.times ?? range.timeBounds, range.timeBounds];
    return [range.steps ?? range.bounds, range.bounds];
  }

  zoom(factor) {
    const [[low, high]] = this.span;
    const half = ((high - low) / 2) * factor;
    const middle = (low + high) / 2;
    this.show(middle - half, middle + half);
  }

  pan(share) {
    const [[low, high], [least, most]] = this.span;
    const way = Math.max(least - low, Math.min(most - high, share * (high - low || 1)));
    this.show(low + way, high + way);
  }

  show(low, high) {
    if (this.range.times || this.range.byTime) this.range.setTimes(low, high);
    else this.range.setSteps(Math.round(low), Math.round(high));
  }

  tell() {
    const { range } = this;
    const steps = range.shownSteps() ?? range.bounds;
    const times = range.overview.length || range.byTime ? range.shownTimes() ?? range.timeBounds : null;
    const texts = [];
    if (range.hasNoSteps) texts.push("No step fell into this time: step plots show all");
    else if (!range.byTime) texts.push(`${range.isWhole ? "All steps, " : "Steps "}${number(steps[0])} to ${number(steps[1])}`);
    if (times) texts.push(`${instant(times[0])} to ${instant(times[1])}`);
    this.text.textContent = texts.join(" · ");
    this.text.title = times ? `${utc(times[0])} to ${utc(times[1])}` : "";
    for (const button of this.buttons) if (["all", "out"].includes(button.dataset.do)) button.disabled = range.isWhole;
  }
}
