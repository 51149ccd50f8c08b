// The views by name, and the parts of each. A part is { name, title, make(host) -> { show(), on: {...} } }.

import { h, put, steady } from "./dom.js";
import { movesView } from "./moves.js";
import { on, setView, state, tell } from "./state.js";

// a part that few pages need comes when it is first opened
const later = (name, title, load) => ({ name, title, load: async () => Object.values(await load()).find((part) => part.name === name) });
// and one that depends on what the file holds or allows, when that is known
const informed = (name, title, load) => later(name, title, async () => (await Promise.all([load(), state.fileKnown]))[0]);
const VIEWS = [
  ["analysis", "Analysis", [{ ...movesView, title: "Moves" }, later("graph", "Graph", () => import("./graph.js")), later("values", "Values", () => import("./values.js")), informed("search", "Search", () => import("./search.js"))]],
  ["games", "Games", [informed("list", "Game list", () => import("./game_list.js")), later("novelties", "Novelties", () => import("./queries.js")), later("prepare", "Prepare", () => import("./queries.js"))]],
  ["book", "Book and repertoire", [later("repertoire", "Repertoire", () => import("./repertoire.js")), informed("books", "Books", () => import("./books.js"))]],
  ["review", "Review", [informed("review", "Review", () => import("./review.js"))]],
  ["file", "File", [informed("files", "Import and export", () => import("./files.js")), informed("runs", "Runs", () => import("./files.js")), later("find", "Find", () => import("./queries.js"))]],
];
const NEWS = ["position", "news", "lines", "live", "beat", "queue", "file", "facts"];

export function views(bar, tabs, panel) {
  let current = null;
  let shown = "";
  const last = new Map(); // the part of each view that was open last

  // a list of tabs; the arrow keys go through it
  function tabsOf(host, entries, chosen, choose) {
    put(host, entries.map(({ id, title }, k) => h("button", {
      type: "button", role: "tab", id, "aria-selected": String(k === chosen), "aria-controls": "panel", tabindex: k === chosen ? "0" : "-1", text: title,
      onclick: (event) => { choose(k); if (event.detail) panel.focus({ preventScroll: true }); }, // a pointer needs the keys for the board
      onkeydown: (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step) return;
        event.preventDefault();
        choose((k + step + entries.length) % entries.length);
        host.querySelector("[aria-selected=true]").focus();
      },
    })));
  }

  function show(name) {
    const at = Math.max(0, VIEWS.findIndex(([, , parts]) => parts.some((part) => part.name === name)));
    const [view, , parts] = VIEWS[at];
    const k = Math.max(0, parts.findIndex((part) => part.name === name));
    last.set(view, k);
    shown = parts[k].name;
    tabsOf(bar, VIEWS.map(([id, title]) => ({ id: `view-${id}`, title })), at, (next) => choose(VIEWS[next][2][last.get(VIEWS[next][0]) ?? 0].name));
    tabsOf(tabs, parts.map((part) => ({ id: `tab-${part.name}`, title: part.title })), k, (next) => choose(parts[next].name));
    panel.setAttribute("aria-labelledby", `tab-${shown}`);
    tell("preview", null);
    const place = h("div", { class: `view-${shown}` }); // its own: late answers to another view go nowhere
    put(panel, place);
    panel.scrollTop = 0;
    current = null;
    open(parts[k], place);
  }

  function choose(name) {
    show(name);
    setView(name);
    if (getComputedStyle(panel).overflowY === "visible") panel.parentElement.scrollIntoView({ block: "start" }); // below the board
  }

  async function open(part, place) {
    const made = part.load ? await part.load().catch((error) => tell("error", error)) : part;
    if (!made || !place.isConnected) return;
    current = made.make(place);
    current.show?.();
  }

  const news = steady(panel, (name, value) => current?.on?.[name]?.(value));
  for (const name of NEWS) on(name, (value) => news(name, value));
  on("view", (name) => { if (name !== shown) show(name); });
  show(state.view);
}
