// Which metrics are plotted: chosen by check boxes, kept in the page's address.
import { readAddress, writeAddress } from "./address.js";

const MOST = 12; // plots of one page
const FIRST = 4; // plots where nothing was chosen
const WANTED = ["loss", "reward", "grad_norm", "kl", "entropy", "learning_rate"];

export class MetricChoice {
  constructor(details, changed) {
    this.details = details;
    this.list = details.querySelector(".p-choices");
    this.count = details.querySelector(".p-count");
    this.changed = changed;
    this.available = [];
    const given = readAddress().get("metrics");
    this.chosen = given === null ? null : given.split(",").filter(Boolean).slice(0, MOST);
    this.list.addEventListener("change", (event) => this.toggle(event.target));
  }

  // `names`: `<op>.<metric>` of all that there are.
  offer(names) {
    if (names.join("\n") !== this.available.join("\n")) {
      this.available = names;
      this.render();
    }
  }

  get names() {
    return this.chosen ?? bestOf(this.available);
  }

  toggle(box) {
    const { names } = this;
    this.chosen = box.checked ? [...names, box.value].slice(0, MOST) : names.filter((name) => name !== box.value);
    writeAddress({ metrics: this.chosen.length ? this.chosen.join(",") : "," });
    this.render();
    this.changed();
  }

  render() {
    const chosen = this.names;
    const all = [...new Set([...this.available, ...chosen])];
    this.count.textContent = all.length ? `${chosen.length} of ${all.length}` : "none reported";
    const focused = document.activeElement?.value;
    this.list.replaceChildren(...all.map((name) => {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.value = name;
      box.checked = chosen.includes(name);
      box.disabled = !box.checked && chosen.length >= MOST;
      label.append(box, name);
      return label;
    }));
    if (focused) [...this.list.querySelectorAll("input")].find((box) => box.value === focused)?.focus();
  }
}

// One of each kind that people look at first, of training rather than of evaluation, means rather than sums.
function bestOf(names) {
  const cost = (name) => 2 * /^(forward|sample)\./.test(name) + name.endsWith(":sum");
  const found = WANTED.map((kind) => names.filter((name) => name.includes(kind)).sort((one, other) => cost(one) - cost(other))[0]);
  const chosen = [...new Set(found.filter(Boolean))];
  return [...chosen, ...names.filter((name) => !chosen.includes(name))].slice(0, Math.min(FIRST, Math.max(chosen.length, 1)));
}
