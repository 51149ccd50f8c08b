// Positions by conditions, transpositions, and SQL.

import { ask, csvLink, latest, send } from "./api.js";
import { chip, count, download, forWhite, h, proven, put, signed, table } from "./dom.js";
import { ecoOf, linkTo, wayTo } from "./books.js";
import { open } from "./state.js";
import { START, said } from "./chess.js";

const kept = { find: { min_n: "100" }, sql: "SELECT fen, n, q, best_move FROM top_position ORDER BY n DESC LIMIT 50" };

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

// ------------------------------------------------------------ SQL
// the rows that are shown, as the server writes those of other tables
async function save({ statement }) {
  const response = await fetch("/api/sql?csv=rows", { method: "POST", body: JSON.stringify({ statement }), headers: { "Content-Type": "application/json" } });
  if (response.ok) download(await response.blob(), "sql.csv");
}

const EXAMPLES = [
  ["Best-visited positions", "SELECT fen, n, q, best_move FROM top_position ORDER BY n DESC LIMIT 50"],
  ["Games against the search", "SELECT fen, san, games, score, n, q, difference FROM games_against_search WHERE games >= 20 ORDER BY abs(difference) DESC LIMIT 50"],
  ["Leaves of books", "SELECT book, fen, ply, priority FROM book_open_leaves ORDER BY priority LIMIT 50"],
  ["Runs", "SELECT * FROM runs"],
  ["Tables and views", "SELECT name, type FROM pragma_table_list WHERE schema = 'main' ORDER BY type, name"],
];

export const sqlView = {
  name: "sql",
  title: "SQL",
  make(host) {
    const area = h("textarea", { id: "statement", rows: 5, spellcheck: "false", value: kept.sql, oninput: (event) => { kept.sql = event.target.value; } });
    const answer = h("div", { class: "answer", "aria-live": "polite" });
    const last = latest();
    const draw = (found) => {
      const places = found.columns.map((name) => /fen|position/i.test(name));
      const rows = found.rows.map((row) => row.map((cell, k) => (places[k] && /^\S+\/\S+ [wb] /.test(cell) ? linkTo(cell) : cell)));
      put(answer, h("p", { class: "note" }, `${count(rows.length)} rows${found.more ? ", and more" : ""} `, h("button", { type: "button", class: "csv", text: "CSV", onclick: () => save(found) })), table(found.columns, rows, { caption: "Answer", empty: "No rows." }));
    };
    const run = (event) => {
      event?.preventDefault();
      put(answer, h("p", { class: "note", text: "Asking…" }));
      const statement = area.value;
      last(send("sql", { statement }), (found) => draw({ ...found, statement }), (error) => put(answer, h("p", { class: "failed", text: error.message })));
    };
    area.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(event); });
    put(host, h("form", { onsubmit: run }, h("label", { for: "statement", text: "A reading statement: SELECT, WITH, VALUES or EXPLAIN. It may take 10 seconds." }), area,
      h("div", { class: "row" }, h("button", { class: "primary", text: "Ask" }), EXAMPLES.map(([title, text]) => h("button", { type: "button", text: title, onclick: () => { area.value = kept.sql = text; run(); } })))), answer);
    return {};
  },
};
