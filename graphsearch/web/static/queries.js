// Forms with an answer: positions by conditions, imported games, what these have not seen yet, and where an opponent leaves a book.

import { ask, latest } from "./api.js";
import { said } from "./chess.js";
import { chip, count, fields, form, h, link, pawns, percent, proven, put, sortHead, table } from "./dom.js";
import { ecoOf, wayTo } from "./files.js";
import { openDraft } from "./notation.js";
import { here, open, state } from "./state.js";

const kept = { find: { min_n: "100" }, novelties: {}, prepare: {} }; // what was typed, while the page is open
const any = (...values) => [["", "any"], ...values.map((value) => [value, value])];

const bookChoices = async (first) => {
  const { books } = await ask("books").catch(() => ({ books: [] }));
  return [["", first], ...books.map(({ name }) => [name, `book ${name}`])];
};

const goTo = (row) => link(said(row.start, [...row.line, row.san]), () => open({ root: row.position, line: [row.move] }), null, "moves-to");

// a view of a form and its answer: `fieldsOf()` gives the fields, `run(values, look, host)` asks and draws
function view(name, about, ready, fieldsOf, run, { atOnce = false } = {}) {
  const values = kept[name];
  return {
    name,
    async make(host) {
      const answer = h("div", { class: "answer", "aria-live": "polite" });
      const last = latest();
      const look = (question, draw) => last(question, (found) => draw(answer, found), (error) => put(answer, h("p", { class: "failed", text: error.message })));
      const start = () => { put(answer, h("p", { class: "note", text: "Looking…" })); run(values, look, { host, start }); };
      put(host, h("p", { class: "lead", text: about }), form(start, fields(name, values, await fieldsOf()), h("button", { class: "primary", text: ready })), answer);
      if (atOnce) start();
    },
  };
}

// ------------------------------------------------------------ positions
export const findView = view("find", "Positions by their record", "Find",
  () => [["min_n", "Visits at least"], ["max_n", "Visits at most"], ["min_q", "Q of the mover at least"], ["max_q", "at most"], ["bounds", "Proven", any("proven", "win", "draw", "loss")],
    ["side", "To move", any("w", "b")], ["pieces", "Pieces", "P<=4, q=0 or KRPkrp", 18], ["limit", "Rows"]],
  (values, look) => look(ask("find", values), drawPositions));

function drawPositions(host, found) {
  const rows = found.positions.map((row) => [wayTo(row), ecoOf(row), chip(row, row.position), row.best_san || "", row.n, proven(row.bounds, row.position)]);
  put(host, h("p", { class: "note" }, found.complete ? "" : "The file is large; these are the results of 20 seconds."),
    table(["Line", "ECO", "Score", "Best", "Visits", "Proven"], rows, { caption: "Positions", empty: "No position fits." }));
}

// ------------------------------------------------------------ novelties
export const noveltiesView = view("novelties", "Best moves of the search that imported games hardly know, from the position on the board or in a book; and popular moves that lose.", "Look",
  async () => [["book", "Look at", await bookChoices("this position")], ["games", "Games at most"], ["share", "% of visits at least"], ["cp", "or centipawns within"], ["min_games", "Games passed"], ["min_visits", "Visits at least"], ["move_visits", "Visits of the move"], ["loss", "Loses centipawns"]],
  (values, look) => {
    const given = { ...(values.book ? {} : here()), ...values };
    look(ask("novelties", given), (host, found) => drawNovelties(host, found, given));
  });

function drawNovelties(host, found, given) {
  const liked = found.novelties.map((row) => [goTo(row), chip(row, row.position), row.best_san, row.games, row.reached, row.n, percent(row.n_share)]);
  const worse = found.popular.map((row) => [goTo(row), chip(row, row.position), row.best_san, pawns(row.cost_cp), row.games, row.reached, row.n, row.weight.toFixed(1)]);
  put(host, h("p", { class: "note", text: `${count(found.reached)} positions of games, ${count(found.judged)} of them searched. Scores in pawns, White's view.` }),
    table(["Line", "Score", "Best", "Games", "Of", "Visits", "Share"], liked, { caption: given.cp ? `Best by the search, or within ${pawns(given.cp)}, new in games` : "Best by the search, new in games", empty: "No best move of the search is new." }),
    table(["Line", "Score", "Best", "Loss", "Games", "Of", "Visits", "Points lost"], worse, { caption: "Popular in games, and worse", empty: "No popular move with enough visits loses so much." }),
    found.problems.map((text) => h("p", { class: "failed", text })));
}

// ------------------------------------------------------------ preparation
export const prepareView = view("prepare", "Where an opponent's imported games leave your book or the stored graph, what he plays there, and what it costs him.", "Prepare",
  async () => [["player", "Player", "name, or part of it", 20], ["color", "His colour", any("white", "black")], ["since", "Since", "YYYY-MM-DD", 11], ["book", "Against", await bookChoices("the stored graph")], ["min_games", "Games at least"], ["by", "First", [["games", "most played"], ["cost", "most costly"]]]],
  (values, look, { host, start }) => {
    const choose = (name) => { values.player = host.querySelector("#prepare-player").value = name; start(); };
    if (values.player) look(ask("prepare", values), drawPreparation);
    else look(ask("players"), (answer, found) => drawPlayers(answer, found, choose));
  }, { atOnce: true });

function drawPlayers(host, found, choose) {
  const rows = found.players.map((row) => [link(row.name, () => choose(row.name)), row.games, row.white, row.black, (row.first || "").slice(0, 4), (row.last || "").slice(0, 4), row.elo?.toFixed()]);
  put(host, h("p", { class: "note", text: `${count(found.games)} games of ${count(found.total)} players.` }), table(["Player", "Games", "White", "Black", "From", "To", "Elo"], rows, { caption: "Players", empty: "No players." }));
}

function drawPreparation(host, found) {
  const rows = found.moves.map((row) => [goTo(row), row.games, row.games_here, percent(row.score, 0), pawns(row.cost_cp), chip(row, row.position), row.best_san || "", row.answer || "", row.last || "", `${row.source}:${row.number}`]);
  const side = found.color ? ` as ${found.color}` : "";
  put(host, h("p", { class: "note", text: `${found.players.join(" / ")}${side}: ${count(found.games)} games, ${count(found.entered)} in ${found.book ? `the book ${found.book}` : "the graph"}; left by him ${count(found.left)}, by the other side before ${count(found.left_by_other)}, ended inside ${count(found.stayed)}.` }),
    table(["Line", "Games", "Of", "Result", "Costs", "Score", "Best", "Your answer", "Last", "Game"], rows, { caption: "Where he leaves", empty: "He never leaves it." }),
    found.total > rows.length && h("p", { class: "note", text: `${count(found.total - rows.length)} more moves; query prepare lists all.` }));
}

// ------------------------------------------------------------ imported games as a list; a click opens one in the notation, with all its comments
const PAGE = 50;
const MOST_PGN = 1000; // games of a download
const list = { values: { here: "" }, by: "date", down: true, first: 0 }; // what was chosen, while the page is open

const LIST_FIELDS = [
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
    const given = () => ({ ...list.values, ...(list.values.here ? here() : {}), by: list.by, down: list.down });
    const show = (first = 0) => {
      list.first = first;
      if (!state.file?.info.imported.games) { put(answer, state.file && h("p", { class: "note", text: "Games are imported in the view File." })); return; }
      last(ask("game-list", { ...given(), first, most: PAGE }), (found) => drawList(answer, found, { given, show }),
        (error) => put(answer, h("p", { class: "failed", text: error.message })));
    };
    put(host, conditions(show), answer);
    show(list.first);
    return { on: { position() { if (list.values.here) show(); }, facts() { show(list.first); } } };
  },
};

function conditions(show) {
  const box = h("input", { type: "checkbox", id: "list-here", checked: Boolean(list.values.here), onchange: () => { list.values.here = box.checked ? "true" : ""; show(); } });
  const clear = () => { list.values = { here: "" }; element.replaceWith(conditions(show)); show(); };
  const element = form(show, fields("list", list.values, LIST_FIELDS, show), h("label", {}, box, " reach the position on the board"), h("button", { class: "primary", text: "Show" }), h("button", { type: "button", text: "Clear", onclick: clear }));
  return element;
}

function drawList(host, found, { given, show }) {
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
  return sortHead(key, title, list, () => { Object.assign(list, { by: key, down: list.by === key ? !list.down : down }); show(); });
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
