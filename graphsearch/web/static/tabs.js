// The views, one at a time. A view is { name, title, make(host, hands) -> { show(), on: {...} } }.

import { h, put } from "./dom.js";
import { menuOf } from "./menu.js";
import { movesView } from "./moves.js";
import { hide } from "./peek.js";
import { on, tell } from "./state.js";
import { searchView } from "./search.js";

// a view that few pages need comes when it is first opened
const later = (name, title, load) => ({ name, title, load: async () => Object.values(await load()).find((view) => view.name === name) });
const VIEWS = [
  movesView,
  later("graph", "Graph", () => import("./graph.js")),
  later("values", "Values", () => import("./values.js")),
  searchView,
  later("review", "Review", () => import("./review.js")),
  later("games", "Games", () => import("./games.js")),
  later("repertoire", "Repertoire", () => import("./repertoire.js")),
  later("list", "Game list", () => import("./game_list.js")),
  later("novelties", "Novelties", () => import("./opponents.js")),
  later("prepare", "Prepare", () => import("./opponents.js")),
  later("books", "Books", () => import("./books.js")),
  later("find", "Find", () => import("./finding.js")),
  later("sql", "SQL", () => import("./finding.js")),
  later("diff", "Compare", () => import("./comparing.js")),
  later("runs", "Runs", () => import("./files.js")),
  later("files", "Files", () => import("./files.js")),
];
const NEWS = ["position", "news", "lines", "live", "beat", "queue", "watched", "file", "facts"];

const TABS = 6; // the others are in a menu

export function tabs(bar, panel, hands) {
  let current = null;
  const buttons = VIEWS.map((view, k) => (k < TABS ? tab(view, k) : item(view, k)));
  const [more, menu] = [document.getElementById("more"), document.getElementById("more-views")];

  function tab(view, k) {
    return h("button", {
      type: "button", role: "tab", id: `tab-${view.name}`, "aria-selected": "false", "aria-controls": "panel", tabindex: "-1", text: view.title,
      onclick: (event) => { choose(k); if (event.detail) panel.focus({ preventScroll: true }); }, // a pointer needs the keys for the board
      onkeydown: (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step) return;
        event.preventDefault();
        const next = (k + step + TABS) % TABS;
        choose(next);
        buttons[next].focus();
      },
    });
  }

  function item(view, k) {
    return h("button", { type: "button", role: "menuitemradio", id: `tab-${view.name}`, "aria-checked": "false", text: view.title, onclick: () => { menu.hidePopover(); choose(k); } });
  }

  const choose = (k) => {
    buttons.forEach((button, j) => { button.setAttribute(j < TABS ? "aria-selected" : "aria-checked", String(j === k)); if (j < TABS) button.tabIndex = j === Math.min(k, TABS - 1) ? 0 : -1; });
    more.textContent = `${k < TABS ? "More" : VIEWS[k].title} ▾`;
    more.classList.toggle("chosen", k >= TABS);
    panel.setAttribute("aria-labelledby", buttons[k].id);
    hide();
    const place = h("div", { class: `view-${VIEWS[k].name}` }); // its own: late answers to another view go nowhere
    put(panel, place);
    current = null;
    open(VIEWS[k], place);
    try { sessionStorage.setItem("view", VIEWS[k].name); } catch { /* storage is off */ }
  };
  put(bar, buttons.slice(0, TABS));
  put(menu, buttons.slice(TABS));
  menuOf(more, menu);
  async function open(view, place) {
    const made = view.load ? await view.load().catch((error) => tell("error", error)) : view;
    if (!made || !place.isConnected) return;
    current = made.make(place, hands);
    current.show?.();
  }

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
