// Makes an element say what a fresh copy of it says, and touches nothing else of it: scroll, focus, a selection, ticked
// boxes and open menus stay. Children are told apart by `data-key` or `id`, others by their place.

const KEPT = new Set(["open"]); // what the reader did to an element
const BOUND = new Set(["class", "style"]); // what the theme's scripts did to an element that they are bound to

export function exchange(old, fresh) {
  if (old.nodeName !== fresh.nodeName) return old.replaceWith(document.importNode(fresh, true));
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return undefined;
  }
  if (old.hasAttribute("data-live-keep")) return undefined;
  exchangeAttributes(old, fresh);
  return exchangeChildren(old, fresh);
}

function exchangeAttributes(old, fresh) {
  const isBound = [...old.attributes].some(({ name }) => /^(x-|:|@)/.test(name));
  const isKept = (name) => KEPT.has(name) || (isBound && BOUND.has(name));
  for (const { name, value } of fresh.attributes) {
    if (!isKept(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!isKept(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id : "";
}

function exchangeChildren(old, fresh) {
  const byKey = new Map([...old.children].filter(keyOf).map((child) => [keyOf(child), child]));
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = keyOf(wanted);
    const same = place && !keyOf(place) && place.nodeName === wanted.nodeName ? place : null;
    const found = key ? byKey.get(key) : same;
    byKey.delete(key);
    if (!found) {
      old.insertBefore(document.importNode(wanted, true), place);
      continue;
    }
    if (found === place) place = place.nextSibling;
    else old.insertBefore(found, place);
    exchange(found, wanted);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}
