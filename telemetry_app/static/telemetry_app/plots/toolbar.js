// The row of buttons above the plots: what is shown, and other ranges.
import { instant, number, utc } from "./format.js";

const NEWEST = 100;

export class Toolbar {
  constructor(element, range) {
    this.range = range;
    this.text = element.querySelector(".p-range");
    const actions = {
      all: () => range.reset(),
      newest: () => range.setSteps(Math.max(range.bounds[0], range.bounds[1] - NEWEST + 1), range.bounds[1]),
      in: () => this.zoom(0.5), out: () => this.zoom(2), back: () => this.pan(-0.5), on: () => this.pan(0.5),
    };
    element.addEventListener("click", (event) => actions[event.target.closest("[data-do]")?.dataset.do]?.());
    this.buttons = element.querySelectorAll("[data-do]");
    range.listen(() => this.tell());
  }

  zoom(factor) {
    const { range } = this;
    const [low, high] = range.times ?? range.steps ?? range.bounds;
    const half = ((high - low) / 2) * factor;
    const middle = (low + high) / 2;
    this.show(middle - half, middle + half);
  }

  pan(share) {
    const [low, high] = this.range.times ?? this.range.steps ?? this.range.bounds;
    const [least, most] = this.range.times ? this.range.timeBounds : this.range.bounds;
    const way = Math.max(least - low, Math.min(most - high, share * (high - low || 1)));
    this.show(low + way, high + way);
  }

  show(low, high) {
    if (this.range.times) this.range.setTimes(low, high);
    else this.range.setSteps(Math.round(low), Math.round(high));
  }

  tell() {
    const { range } = this;
    const steps = range.shownSteps() ?? range.bounds;
    const text = `${range.isWhole ? "All steps, " : "Steps "}${number(steps[0])} to ${number(steps[1])}`;
    const times = range.overview.length ? range.shownTimes() ?? range.timeBounds : null;
    this.text.textContent = times ? `${text} · ${instant(times[0])} to ${instant(times[1])}` : text;
    this.text.title = times ? `${utc(times[0])} to ${utc(times[1])}` : "";
    for (const button of this.buttons) if (["all", "out"].includes(button.dataset.do)) button.disabled = range.isWhole;
  }
}
