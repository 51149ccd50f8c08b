// What imported games have not seen yet, and where an opponent leaves a book.

import { ask, csvLink, latest } from "./api.js";
import { chip, count, h, pawns, percent, put, table } from "./dom.js";
import { here, open } from "./state.js";
import { said } from "./chess.js";

const kept = { novelties: {}, prepare: {} }; // what was typed, while the page is open

// the fields of a form: [key, label, choices or placeholder]
function form(name, fields, ready, run) {
  const values = kept[name];
  const controls = fields.map(([key, label, kind]) => {
    const id = `${name}-${key}`;
    const keep = (event) => { values[key] = event.target.value.trim(); };
    const control = Array.isArray(kind) ? h("select", { id, onchange: keep }, kind.map(([value, text]) => h("option", { value, text, selected: (values[key] || "") === value })))
      : h("input", { id, size: kind ? 20 : 6, placeholder: kind || "", value: values[key] || "", oninput: keep });
    return h("div", { class: "field" }, h("label", { for: id, text: label }), control);
  });
  return h("form", { class: "inline", onsubmit: (event) => { event.preventDefault(); run(values); } }, controls, h("button", { class: "primary", text: ready }));
}

const bookChoices = async (first) => {
  try { return [["", first], ...(await ask("books")).books.map(({ name }) => [name, `book ${name}`])]; } catch { return [["", first]]; }
};

const goTo = (row) => h("button", { type: "button", class: "link", text: said(row.start, [...row.line, row.san]), onclick: () => open({ root: row.position, line: [row.move] }) });
const failed = (place) => (error) => put(place, h("p", { class: "failed", text: error.message }));
const waits = (place) => put(place, h("p", { class: "note", text: "Looking…" }));

// ------------------------------------------------------------ novelties
export const noveltiesView = {
  name: "novelties",
  title: "Novelties",
  make(host) {
    const answer = h("div", { class: "answer", "aria-live": "polite" });
    const last = latest();
    const run = (values) => {
      waits(answer);
      const { cp } = values;
      const given = { ...(values.book ? {} : here()), ...values };
      last(ask("novelties", given), (found) => drawNovelties(answer, found, cp, given), failed(answer));
    };
    const begin = async () => put(host, h("p", { class: "lead", text: "Best moves of the search that imported games hardly know, from the position on the board or in a book; and popular moves that lose." }),
      form("novelties", [["book", "Look at", await bookChoices("this position")], ["games", "Games at most"], ["share", "% of visits at least"], ["cp", "or centipawns within"], ["min_games", "Games passed"], ["min_visits", "Visits at least"], ["move_visits", "Visits of the move"], ["loss", "Loses centipawns"]], "Look", run), answer);
    begin();
    return {};
  },
};

function drawNovelties(host, found, within, given) {
  const liked = found.novelties.map((row) => [goTo(row), chip(row, row.position), row.best, row.games, row.reached, row.n, percent(row.n_share)]);
  const worse = found.popular.map((row) => [goTo(row), chip(row, row.position), row.best, pawns(row.cost_cp), row.games, row.reached, row.n, row.weight.toFixed(1)]);
  put(host, h("p", { class: "note", text: `${count(found.reached)} positions of games, ${count(found.judged)} of them searched. Scores in pawns, White's view.` }),
    csvLink("novelties", given, "novelties"), table(["Line", "Score", "Best", "Games", "Of", "Visits", "Share"], liked, { caption: within ? `Best by the search, or within ${pawns(within)}, new in games` : "Best by the search, new in games", empty: "No best move of the search is new." }),
    csvLink("novelties", given, "popular"), table(["Line", "Score", "Best", "Loss", "Games", "Of", "Visits", "Points lost"], worse, { caption: "Popular in games, and worse", empty: "No popular move with enough visits loses so much." }),
    found.problems.map((text) => h("p", { class: "failed", text })));
}

// ------------------------------------------------------------ preparation
export const prepareView = {
  name: "prepare",
  title: "Prepare",
  make(host) {
    const answer = h("div", { class: "answer", "aria-live": "polite" });
    const last = latest();
    const run = (values) => {
      waits(answer);
      if (values.player) last(ask("prepare", values), (found) => drawPreparation(answer, found, { ...values }), failed(answer));
      else last(ask("players"), (found) => drawPlayers(answer, found, choose), failed(answer));
    };
    const choose = (name) => { kept.prepare.player = name; host.querySelector("#prepare-player").value = name; run(kept.prepare); };
    const begin = async () => {
      put(host, h("p", { class: "lead", text: "Where an opponent's imported games leave your book or the stored graph, what he plays there, and what it costs him." }),
        form("prepare", [["player", "Player", "name, or part of it"], ["color", "His colour", [["", "any"], ["white", "white"], ["black", "black"]]], ["since", "Since", "YYYY-MM-DD"], ["book", "Against", await bookChoices("the stored graph")], ["min_games", "Games at least"], ["by", "First", [["games", "most played"], ["cost", "most costly"]]]], "Prepare", run), answer);
      run(kept.prepare);
    };
    begin();
    return {};
  },
};

function drawPlayers(host, found, choose) {
  const rows = found.players.map((row) => [h("button", { type: "button", class: "link", text: row.name, onclick: () => choose(row.name) }), row.games, row.white, row.black, (row.first || "").slice(0, 4), (row.last || "").slice(0, 4), row.elo ?? ""]);
  put(host, h("p", { class: "note", text: `${count(found.games)} games of ${count(found.total)} players.` }), csvLink("players", {}, "players"), table(["Player", "Games", "White", "Black", "From", "To", "Elo"], rows, { caption: "Players", empty: "No players." }));
}

function drawPreparation(host, found, given) {
  const rows = found.moves.map((row) => [goTo(row), row.games, row.games_here, percent(row.score, 0), pawns(row.cost_cp), chip(row, row.position), row.best || "", row.answer || "", row.last || "", `${row.source}:${row.number}`]);
  const side = found.color ? ` as ${found.color}` : "";
  put(host, h("p", { class: "note", text: `${found.players.join(" / ")}${side}: ${count(found.games)} games, ${count(found.entered)} in ${found.book ? `the book ${found.book}` : "the graph"}; left by him ${count(found.left)}, by the other side before ${count(found.left_by_other)}, ended inside ${count(found.stayed)}.` }),
    csvLink("prepare", given, "moves"), table(["Line", "Games", "Of", "Result", "Costs", "Score", "Best", "Your answer", "Last", "Game"], rows, { caption: "Where he leaves", empty: "He never leaves it." }),
    found.total > rows.length && h("p", { class: "note", text: `${count(found.total - rows.length)} more moves; query prepare lists all.` }));
}
