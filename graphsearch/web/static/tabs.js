// The views, one at a time. A view is { name, title, make(host, hands) -> { show(), on: {...} } }.

import { booksView } from "./books.js";
import { filesView, runsView } from "./files.js";
import { gamesView } from "./games.js";
import { diffView } from "./comparing.js";
import { graphView } from "./graph.js";
import { h, put } from "./dom.js";
import { movesView } from "./moves.js";
import { hide } from "./peek.js";
import { noveltiesView, prepareView } from "./opponents.js";
import { on } from "./state.js";
import { reviewView } from "./review.js";
import { searchView } from "./search.js";
import { findView, sqlView } from "./finding.js";
import { valuesView } from "./values.js";

const VIEWS = [movesView, graphView, valuesView, searchView, reviewView, gamesView, noveltiesView, prepareView, booksView, findView, sqlView, diffView, runsView, filesView];
const NEWS = ["position", "news", "lines", "live", "beat", "queue", "watched", "file", "facts"];

export function tabs(bar, panel, hands) {
  let current = null;
  const buttons = VIEWS.map((view, k) => h("button", {
    type: "button", role: "tab", id: `tab-${view.name}`, "aria-selected": "false", "aria-controls": "panel", tabindex: "-1", text: view.title,
    onclick: (event) => { choose(k); if (event.detail) panel.focus({ preventScroll: true }); }, // a pointer needs the keys for the board
    onkeydown: (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = (k + step + VIEWS.length) % VIEWS.length;
      choose(next);
      buttons[next].focus();
    },
  }));
  const choose = (k) => {
    buttons.forEach((button, j) => { button.setAttribute("aria-selected", String(j === k)); button.tabIndex = j === k ? 0 : -1; });
    panel.setAttribute("aria-labelledby", buttons[k].id);
    hide();
    const place = h("div", { class: `view-${VIEWS[k].name}` }); // its own: late answers to another view go nowhere
    put(panel, place);
    current = VIEWS[k].make(place, hands);
    current.show?.();
    try { sessionStorage.setItem("view", VIEWS[k].name); } catch { /* storage is off */ }
  };
  put(bar, buttons);

  // a view that is redrawn five times a second must neither swallow a click nor lose the focus
  const late = new Map();
  let pressed = false;
  const show = (name, value) => {
    const focus = document.activeElement?.dataset?.focus;
    current?.on?.[name]?.(value);
    if (focus && document.activeElement === document.body) panel.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  };
  const released = () => setTimeout(() => { // after the click
    pressed = false;
    const news = [...late];
    late.clear();
    news.forEach(([name, value]) => show(name, value));
  });
  panel.addEventListener("pointerdown", () => { pressed = true; });
  for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, released);
  for (const name of NEWS) on(name, (value) => { if (pressed) late.set(name, value); else show(name, value); });
  let kept = null;
  try { kept = sessionStorage.getItem("view"); } catch { /* storage is off */ }
  choose(Math.max(0, VIEWS.findIndex((view) => view.name === kept)));
}
