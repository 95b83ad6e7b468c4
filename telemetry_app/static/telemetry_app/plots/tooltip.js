// What a hover tells: exact values with units, beside the pointer and inside of the plot.

export class Tooltip {
  constructor(box) {
    this.box = box;
    this.card = document.createElement("div");
    this.card.className = "p-tooltip";
    this.card.hidden = true;
    box.append(this.card);
  }

  // `told`: {title, rows: [[name, value, swatch?]]}, or null for nothing. `left` and `top` are pixels in the box.
  show(told, left = 0, top = 0) {
    this.card.hidden = !told;
    if (!told) return;
    const title = document.createElement("strong");
    title.textContent = told.title;
    const table = document.createElement("table");
    for (const [name, value, swatch] of told.rows) {
      const row = table.insertRow();
      const mark = row.insertCell();
      if (swatch) mark.append(swatch);
      row.insertCell().textContent = name;
      row.insertCell().textContent = value;
    }
    this.card.replaceChildren(title, table);
    const room = this.box.clientWidth - this.card.offsetWidth;
    const beside = left + 16 > room ? left - this.card.offsetWidth - 16 : left + 16;
    this.card.style.left = `${Math.max(0, Math.min(room, beside))}px`;
    this.card.style.top = `${Math.max(0, Math.min(top, this.box.clientHeight - this.card.offsetHeight - 30))}px`;
  }
}
