// Forms with an answer: positions by conditions, what imported games have not seen yet, and where an opponent leaves a book.

import { ask, latest } from "./api.js";
import { ecoOf, wayTo } from "./books.js";
import { chip, count, fields, form, h, link, pawns, percent, proven, put, table } from "./dom.js";
import { here, open } from "./state.js";
import { said } from "./chess.js";

const kept = { find: { min_n: "100" }, novelties: {}, prepare: {} }; // what was typed, while the page is open
const any = (...values) => [["", "any"], ...values.map((value) => [value, value])];

const bookChoices = async (first) => {
  const { books } = await ask("books").catch(() => ({ books: [] }));
  return [["", first], ...books.map(({ name }) => [name, `book ${name}`])];
};

const goTo = (row) => link(said(row.start, [...row.line, row.san]), () => open({ root: row.position, line: [row.move] }));

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
  const rows = found.positions.map((row) => [wayTo(row), ecoOf(row), chip(row, row.position), row.best_move || "", row.n, proven(row.bounds, row.position)]);
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
  const liked = found.novelties.map((row) => [goTo(row), chip(row, row.position), row.best, row.games, row.reached, row.n, percent(row.n_share)]);
  const worse = found.popular.map((row) => [goTo(row), chip(row, row.position), row.best, pawns(row.cost_cp), row.games, row.reached, row.n, row.weight.toFixed(1)]);
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
  const rows = found.moves.map((row) => [goTo(row), row.games, row.games_here, percent(row.score, 0), pawns(row.cost_cp), chip(row, row.position), row.best || "", row.answer || "", row.last || "", `${row.source}:${row.number}`]);
  const side = found.color ? ` as ${found.color}` : "";
  put(host, h("p", { class: "note", text: `${found.players.join(" / ")}${side}: ${count(found.games)} games, ${count(found.entered)} in ${found.book ? `the book ${found.book}` : "the graph"}; left by him ${count(found.left)}, by the other side before ${count(found.left_by_other)}, ended inside ${count(found.stayed)}.` }),
    table(["Line", "Games", "Of", "Result", "Costs", "Score", "Best", "Your answer", "Last", "Game"], rows, { caption: "Where he leaves", empty: "He never leaves it." }),
    found.total > rows.length && h("p", { class: "note", text: `${count(found.total - rows.length)} more moves; query prepare lists all.` }));
}
