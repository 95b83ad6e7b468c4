// On a wall the page is zoomed (pages.css), which browsers leave out of `devicePixelRatio`: uPlot, which reads it as it
// loads, would draw too few pixels and the browser blow them up. So this stands before it, as a plain script.
{
  const own = Object.getOwnPropertyDescriptor(window, "devicePixelRatio");
  const zoom = () => document.getElementById("content")?.currentCSSZoom ?? 1;
  if (own?.get) Object.defineProperty(window, "devicePixelRatio", { ...own, get: () => own.get.call(window) * zoom() });
}
