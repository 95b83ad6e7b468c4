// Whether step time is split by op or by where it went: two buttons, and a word in the page's address.
import { readAddress, writeAddress } from "./address.js";

export class SplitChoice {
  constructor(element, changed) {
    this.buttons = [...element.querySelectorAll("[data-split]")];
    this.word = readAddress().get("split") === "op" ? "op" : "clock";
    for (const button of this.buttons) {
      button.addEventListener("click", () => {
        this.word = button.dataset.split;
        writeAddress({ split: this.word === "op" ? "op" : null });
        this.tell();
        changed();
      });
    }
    this.tell();
  }

  tell() {
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.split === this.word));
  }
}
