// The imported games as a list: filters, order, pages; a click opens one in the notation, with all its comments.

import { ask, latest } from "./api.js";
import { count, fields, form, h, put, sortHead, table } from "./dom.js";
import { openDraft } from "./notation.js";
import { here, state } from "./state.js";

const PAGE = 50;
const MOST_PGN = 1000; // games of a download
export const kept = { values: { here: "" }, by: "date", down: true, first: 0 }; // what was chosen, while the page is open

const FIELDS = [
  ["player", "Player", "name, or part of it", 16], ["color", "His colour", [["", "any"], ["white", "White"], ["black", "Black"]]], ["opponent", "Opponent", "", 12],
  ["opening", "Opening", "B90 or Najdorf", 14], ["result", "Result", [["", "any"], ["1-0", "1-0"], ["0-1", "0-1"], ["1/2-1/2", "½-½"], ["*", "*"]]],
  ["least_elo", "Rating from", "", 5], ["most_elo", "to", "", 5], ["since", "Date from", "YYYY-MM-DD", 11], ["until", "to ", "YYYY-MM-DD", 11], ["file", "File", "", 10],
];
// key, heading, whether the greatest comes first
const COLUMNS = [
  ["date", "Date", true], ["white", "White", false], ["white_elo", "Elo", true], ["black", "Black", false], ["black_elo", "Elo", true], ["result", "Result", false],
  ["eco", "ECO", false], ["", "Opening"], ["plies", "Moves", true], ["event", "Event", false], ["number", "Game", false],
];

export const listView = {
  name: "list",
  make(host) {
    const answer = h("div", { class: "answer", "aria-live": "polite" });
    const last = latest();
    const given = () => ({ ...kept.values, ...(kept.values.here ? here() : {}), by: kept.by, down: kept.down });
    const show = (first = 0) => {
      kept.first = first;
      if (!state.file?.info.imported.games) { put(answer, state.file && h("p", { class: "note", text: "Games are imported in the view File." })); return; }
      last(ask("game-list", { ...given(), first, most: PAGE }), (found) => draw(answer, found, { given, show }),
        (error) => put(answer, h("p", { class: "failed", text: error.message })));
    };
    put(host, conditions(show), answer);
    show(kept.first);
    return { on: { position() { if (kept.values.here) show(); }, facts() { show(kept.first); } } };
  },
};

function conditions(show) {
  const box = h("input", { type: "checkbox", id: "list-here", checked: Boolean(kept.values.here), onchange: () => { kept.values.here = box.checked ? "true" : ""; show(); } });
  const clear = () => { kept.values = { here: "" }; element.replaceWith(conditions(show)); show(); };
  const element = form(show, fields("list", kept.values, FIELDS, show), h("label", {}, box, " reach the position on the board"), h("button", { class: "primary", text: "Show" }), h("button", { type: "button", text: "Clear", onclick: clear }));
  return element;
}

function draw(host, found, { given, show }) {
  const [first, end] = [found.first + 1, found.first + found.games.length];
  const page = (text, at, off) => h("button", { type: "button", text, disabled: off, onclick: () => show(at) });
  const pgn = new URLSearchParams({ ...Object.fromEntries(Object.entries(given()).filter(([, value]) => value !== "")), most: MOST_PGN });
  put(host, h("div", { class: "row" }, h("span", { class: "note", text: `${count(found.total)} of ${count(found.all_games)} games${found.games.length ? `, ${count(first)} to ${count(end)}` : ""}` }),
    page("Back", Math.max(0, found.first - PAGE), !found.first), page("Next", found.first + PAGE, end >= found.total),
    found.total > 0 && h("a", { class: "button", href: `/api/game-list-pgn?${pgn}`, text: found.total > MOST_PGN ? `PGN of the first ${count(MOST_PGN)}` : "PGN" })),
  found.games.length > 0 && table(COLUMNS.map((column) => heading(column, show)), found.games.map(rowOf), { caption: "Imported games", mark(tr, k) { tr.className = "game"; tr.addEventListener("click", () => openGame(found.games[k])); } }));
}

function heading([key, title, down], show) {
  if (!key) return title;
  return sortHead(key, title, kept, () => { Object.assign(kept, { by: key, down: kept.by === key ? !kept.down : down }); show(); });
}

const rowOf = (game) => [
  h("span", { text: game.date ?? "" }), h("button", { type: "button", class: "link", "aria-label": `Open ${game.white || "?"} – ${game.black || "?"}`, text: game.white || "?" }), game.white_elo?.toFixed(), game.black || "?", game.black_elo?.toFixed(),
  game.result, game.eco, h("span", { class: "wide", text: (game.opening || "").slice(4) }), Math.ceil(game.plies / 2), game.event, h("span", { title: game.file, text: `${game.source}:${game.number}` }),
];

// opens a game at the position on the board, if that was asked for
async function openGame(game) {
  const { source, number } = game;
  const whole = await ask("game", { source, number, ...here() });
  openDraft(whole, game.ply ?? (state.at ? whole.ply : 0));
}
