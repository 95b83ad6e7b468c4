// Legends: a swatch as the plot draws it, and a word, which leads to a page where there is one.
import { swatch } from "./palette.js";

// `entries`: [[name, style, address?]], style being {fill} or {stroke, dash}.
export function legendOf(entries) {
  return entries.map(([name, style, address]) => {
    const entry = document.createElement("span");
    entry.className = "p-entry";
    const word = document.createElement(address ? "a" : "span");
    word.textContent = name;
    if (address) Object.assign(word, { href: address, className: "t-link" });
    entry.append(swatch(style), word);
    return entry;
  });
}
