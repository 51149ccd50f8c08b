// Positions by conditions, and transpositions.

import { ask, csvLink, latest } from "./api.js";
import { chip, count, fields, form, forWhite, h, proven, put, signed, table } from "./dom.js";
import { ecoOf, linkTo, wayTo } from "./books.js";
import { open } from "./state.js";
import { START, said } from "./chess.js";

const kept = { find: { min_n: "100" }, transpositions: {} };
const any = (...values) => [["", "any"], ...values.map((value) => [value, value])];

const QUESTIONS = {
  find: {
    title: "Positions by their record",
    fields: [["min_n", "Visits at least"], ["max_n", "Visits at most"], ["min_q", "Q of the mover at least"], ["max_q", "at most"], ["bounds", "Proven", any("proven", "win", "draw", "loss")],
      ["side", "To move", any("w", "b")], ["pieces", "Pieces", "P<=4, q=0 or KRPkrp", 18], ["limit", "Rows"]],
    rows: (found) => [["Line", "ECO", "Score", "Best", "Visits", "Proven"], found.positions.map((row) => [wayTo(row), ecoOf(row), chip(row, row.position), row.best_move || "", row.n, proven(row.bounds, row.position)])],
    note: (found) => (found.complete ? "" : "The file is large; these are the results of 20 seconds."),
  },
  transpositions: {
    title: "Positions with the most ways in",
    fields: [["top", "Rows"], ["look", "Positions to look at"]],
    rows: (found) => [["Line", "Ways", "Visits of the ways", "Visits", "White's Q"], found.positions.map((row) => [lineLink(row), row.ways, row.n, row.visits, signedCell(row)])],
    note: (found) => `${count(found.looked_at)} of ${count(found.total)} positions looked at: ${count(found.shared)} of those behind ${count(found.edges)} edges have several ways in.`,
  },
};

const signedCell = (row) => Object.assign(h("span", { text: signed(forWhite(row, row.position).q) }), { numeric: true });

function lineLink(row) {
  if (!row.line) return linkTo(row.position);
  return h("button", { type: "button", class: "link", title: row.position, text: said(row.root, row.line) || "start", onclick: () => open({ root: row.root || START, line: row.line }) });
}

export const findView = {
  name: "find",
  make(host) {
    put(host, Object.keys(QUESTIONS).map(section));
    return {};
  },
};

function section(name) {
  const question = QUESTIONS[name];
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const last = latest();
  const draw = (found) => {
    const [columns, rows] = question.rows(found);
    put(answer, h("p", { class: "note" }, question.note(found), " ", csvLink(name, kept[name], "positions")), table(columns, rows, { caption: question.title, empty: "No position fits." }));
  };
  const run = () => {
    put(answer, h("p", { class: "note", text: "Looking…" }));
    last(ask(name, kept[name]), draw, (error) => put(answer, h("p", { class: "failed", text: error.message })));
  };
  return h("section", {}, h("h2", { text: question.title }), form(run, fields(name, kept[name], question.fields), h("button", { text: "Find" })), answer);
}
