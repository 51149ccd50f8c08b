// Positions by conditions, and transpositions.

import { ask, csvLink, latest } from "./api.js";
import { chip, count, forWhite, h, proven, put, signed, table } from "./dom.js";
import { ecoOf, linkTo, wayTo } from "./books.js";
import { open } from "./state.js";
import { START, said } from "./chess.js";

const kept = { find: { min_n: "100" } };

const QUESTIONS = {
  find: {
    title: "Positions by their record",
    fields: [["min_n", "Visits at least"], ["max_n", "Visits at most"], ["min_q", "Q of the mover at least"], ["max_q", "at most"], ["bounds", "Proven", ["", "proven", "win", "draw", "loss"]],
      ["side", "To move", ["", "w", "b"]], ["pieces", "Pieces", "P<=4, q=0 or KRPkrp"], ["limit", "Rows"]],
    ask: (given) => ask("find", given),
    rows: (found) => [["Line", "ECO", "Score", "Best", "Visits", "Proven"], found.positions.map((row) => [wayTo(row), ecoOf(row), chip(row, row.position), row.best_move || "", row.n, proven(row.bounds, row.position)])],
    note: (found) => (found.complete ? "" : "The file is large; these are the results of 20 seconds."),
  },
  transpositions: {
    title: "Positions with the most ways in",
    fields: [["top", "Rows"], ["look", "Positions to look at"]],
    ask: (given) => ask("transpositions", given),
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
  title: "Find",
  make(host) {
    put(host, Object.entries(QUESTIONS).map(([name, question]) => section(name, question)));
    return {};
  },
};

function section(name, question) {
  const values = (kept[name] ||= {});
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const last = latest();
  const controls = question.fields.map(([key, label, form]) => {
    const id = `${name}-${key}`;
    const keep = (event) => { values[key] = event.target.value.trim(); };
    const control = Array.isArray(form) ? h("select", { id, onchange: keep }, form.map((value) => h("option", { value, text: value || "any", selected: values[key] === value })))
      : h("input", { id, size: form ? 18 : 8, placeholder: form || "", value: values[key] || "", oninput: keep });
    return h("div", { class: "field" }, h("label", { for: id, text: label }), control);
  });
  const draw = (found) => {
    const [columns, rows] = question.rows(found);
    put(answer, h("p", { class: "note" }, question.note(found), " ", csvLink(name, values, "positions")), table(columns, rows, { caption: question.title, empty: "No position fits." }));
  };
  const run = (event) => {
    event.preventDefault();
    put(answer, h("p", { class: "note", text: "Looking…" }));
    last(question.ask(values), draw, (error) => put(answer, h("p", { class: "failed", text: error.message })));
  };
  return h("section", {}, h("h2", { text: question.title }), h("form", { class: "inline", onsubmit: run }, controls, h("button", { text: "Find" })), answer);
}
