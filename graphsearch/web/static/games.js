// Imported games at the position, against what the search says.

import { ask, csvLink, latest } from "./api.js";
import { bar, chip, count, forWhite, grid, h, percent, put, signed } from "./dom.js";
import { here, play, state, tell } from "./state.js";

export const gamesView = {
  name: "games",
  make(host) {
    const last = latest();
    const show = () => last(ask("games", here()), (found) => draw(host, found),
      (error) => put(host, h("p", { class: "note", text: error.message }), h("p", { class: "note", text: "Games are imported in the view File." })));
    return { show, on: { position: show, file: show } };
  },
};

const share = (row) => [["white", row.white], ["even", row.draws], ["black", row.black]].map(([name, n]) => [name, n / Math.max(1, row.white + row.draws + row.black)]);
const said = (row) => `${count(row.white)} won by White, ${count(row.draws)} drawn, ${count(row.black)} won by Black${row.unknown ? `, ${count(row.unknown)} without a result` : ""}`;

const result = (mean, fen) => (mean === null || mean === undefined ? null : (1 + forWhite({ q: 2 * mean - 1 }, fen).q) / 2);

// with the number of known results, where some are not known
function resultOf(move, fen) {
  const known = move.white + move.draws + move.black;
  const text = percent(result(move.score, fen), 0);
  return move.unknown ? (known ? `${text} of ${count(known)}` : "unknown") : text;
}

async function listHere() {
  (await import("./game_list.js")).kept.values = { here: "true" };
  document.getElementById("tab-list").click();
}

function draw(host, found) {
  const rows = found.moves.map((move) => h("tr", { onmouseenter: () => tell("hover", move.move), onmouseleave: () => tell("hover", null) }, [
    h("td", {}, h("button", { type: "button", class: "move", text: move.san, onclick: () => { if (found.position === state.look?.position) play(move.move); } })),
    h("td", { class: "number", text: move.games ? count(move.games) : "–" }),
    h("td", { class: "number", text: move.games ? percent(move.share) : "" }),
    h("td", { class: "wide" }, move.games ? bar(said(move), ...share(move)) : ""),
    h("td", { class: "number", text: resultOf(move, found.position) }),
    h("td", { class: "number", text: move.n ? count(move.n) : "–" }),
    h("td", { class: "number", text: percent(move.n_share) }),
    h("td", {}, move.q !== null && chip(move, found.position)),
    h("td", { class: "number", text: signed(forWhite({ q: move.difference }, found.position).q, 2) }),
  ]));
  const heads = [["Move"], ["Games"], ["Share"], ["White / drawn / Black"], ["Result", "", "White's mean result, of the games that have one"], ["Visits"], ["Share"], ["Score", "", "In pawns, White's view"], ["Games − Q", "", "Above 0: White did better in games than the search expects"]];
  put(host, h("p", { class: "lead" }, h("span", { text: found.games ? `${count(found.games)} games: ${said(found)}.` : "No imported game went on from this position." }), " ",
    found.games > 0 && h("button", { type: "button", text: "List them", onclick: listHere }), " ", csvLink("games", here(), "moves")),
    grid("Moves in imported games", heads, rows));
}
