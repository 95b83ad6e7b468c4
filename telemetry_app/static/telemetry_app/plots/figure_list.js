// The plots of the chosen metrics: one figure each, made from the page's template.

export class FigureList {
  // `make(figure)` returns what draws in a figure: an object with a `plot`.
  constructor(place, template, make) {
    this.place = place;
    this.template = template;
    this.make = make;
    this.note = place.previousElementSibling; // not that of another plot
    this.byName = new Map();
  }

  get plots() {
    return [...this.byName.values()].map((shown) => shown.plot);
  }

  get pointsCount() {
    const width = this.place.querySelector(".p-box")?.clientWidth ?? this.place.clientWidth / 2;
    return Math.min(2_000, Math.max(100, Math.round(width)));
  }

  say(sentence, { isBad = false } = {}) {
    this.place.dataset.ready = "true";
    this.note.textContent = sentence;
    this.note.hidden = !sentence;
    this.note.classList.toggle("p-bad", isBad);
  }

  // Shows a figure for each name, in their order; `draw(shown, name)` fills it.
  show(names, draw) {
    this.say(names.length ? "" : "No metric is chosen, or none was reported yet.");
    for (const [name, { plot }] of this.byName) {
      if (names.includes(name)) continue;
      plot.figure.remove();
      this.byName.delete(name);
    }
    for (const [index, name] of names.entries()) {
      const shown = this.byName.get(name) ?? this.add(name);
      const { figure } = shown.plot; // moved only where it must be: a moved one loses the keyboard
      if (this.place.children[index] !== figure) this.place.insertBefore(figure, this.place.children[index] ?? null);
      draw(shown, name);
    }
  }

  add(name) {
    const figure = this.template.content.firstElementChild.cloneNode(true);
    figure.querySelector(".p-name").textContent = name;
    figure.querySelector(".p-box").setAttribute("aria-label", `${name} by step. Arrow keys read its values, plus and minus zoom.`);
    figure.querySelector(".p-table").setAttribute("aria-label", `${name} as a table`);
    this.place.append(figure);
    const shown = this.make(figure);
    this.byName.set(name, shown);
    return shown;
  }
}
