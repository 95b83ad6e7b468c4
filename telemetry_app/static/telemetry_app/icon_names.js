// The theme draws an icon by writing its name in a font of icons, which is read aloud: "monitoring Fleet". It is hidden
// from those who hear a page wherever what it stands in is named otherwise. A classic script, as the theme wants its own.
document.addEventListener("DOMContentLoaded", () => {
  const icons = ".material-symbols-outlined";
  for (const icon of document.querySelectorAll(icons)) {
    const control = icon.closest("a, button");
    const rest = control?.cloneNode(true);
    for (const name of rest?.querySelectorAll(icons) ?? []) name.remove();
    if (!rest || rest.title || rest.getAttribute("aria-label") || rest.textContent.trim()) icon.setAttribute("aria-hidden", "true");
  }
});
