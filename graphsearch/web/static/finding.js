// Positions by conditions.

import { ask, latest } from "./api.js";
import { chip, fields, form, h, proven, put, table } from "./dom.js";
import { ecoOf, wayTo } from "./books.js";

const kept = { min_n: "100" }; // what was typed, while the page is open
const any = (...values) => [["", "any"], ...values.map((value) => [value, value])];
const FIELDS = [
  ["min_n", "Visits at least"], ["max_n", "Visits at most"], ["min_q", "Q of the mover at least"], ["max_q", "at most"], ["bounds", "Proven", any("proven", "win", "draw", "loss")],
  ["side", "To move", any("w", "b")], ["pieces", "Pieces", "P<=4, q=0 or KRPkrp", 18], ["limit", "Rows"],
];

export const findView = {
  name: "find",
  make(host) {
    const answer = h("div", { class: "answer", "aria-live": "polite" });
    const last = latest();
    const run = () => {
      put(answer, h("p", { class: "note", text: "Looking…" }));
      last(ask("find", kept), (found) => draw(answer, found), (error) => put(answer, h("p", { class: "failed", text: error.message })));
    };
    put(host, h("h2", { text: "Positions by their record" }), form(run, fields("find", kept, FIELDS), h("button", { text: "Find" })), answer);
    return {};
  },
};

function draw(host, found) {
  const rows = found.positions.map((row) => [wayTo(row), ecoOf(row), chip(row, row.position), row.best_move || "", row.n, proven(row.bounds, row.position)]);
  put(host, h("p", { class: "note" }, found.complete ? "" : "The file is large; these are the results of 20 seconds."),
    table(["Line", "ECO", "Score", "Best", "Visits", "Proven"], rows, { caption: "Positions by their record", empty: "No position fits." }));
}
