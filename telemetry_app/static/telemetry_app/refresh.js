// Refresh a page in place: fetch it again and exchange its live part, so that scroll and selection stay.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const page = document.querySelector("[data-refresh-seconds]");
  if (!page) return;
  const seconds = Number(page.dataset.refreshSeconds);

  async function refresh() {
    const busy = document.hidden || !document.getSelection().isCollapsed;
    if (!busy) {
      try {
        const answer = await fetch(location.href, { headers: { "X-Requested-With": "refresh" } });
        if (answer.ok && !answer.redirected) exchange(await answer.text());
        page.classList.toggle("t-stale", !answer.ok);
      } catch {
        page.classList.add("t-stale"); // the site is away: what is shown stays, marked as old
      }
    }
    setTimeout(refresh, seconds * 1000);
  }

  function exchange(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("[data-refresh-seconds]");
    if (!fresh) return;
    const scrolled = [...page.querySelectorAll(".t-scroll")].map((box) => box.scrollLeft);
    page.replaceChildren(...fresh.childNodes);
    page.querySelectorAll(".t-scroll").forEach((box, index) => { box.scrollLeft = scrolled[index] ?? 0; });
  }

  setTimeout(refresh, seconds * 1000);
});
