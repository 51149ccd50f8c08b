// The file itself: runs, roots and evaluators; imports, exports and downloads; books.

import { ask, send, upload } from "./api.js";
import { said } from "./chess.js";
import { bytes, count, fields, form, forWhite, h, link, put, signed, table, when } from "./dom.js";
import { jobRow } from "./search.js";
import { here, open, placeOf, state, toast } from "./state.js";

const linkTo = (fen) => link(fen, () => open({ root: fen, line: [] }));

// a row about a position: the moves to it and its opening, where they are known, else the FEN
export function wayTo(row) {
  if (!row.way) return linkTo(row.position);
  const { start, line, opening } = row.way;
  return link(line.length ? said(start, line) : start || "start", () => open(placeOf(row)), [opening, row.position].filter(Boolean).join("\n"), "moves-to");
}

export const ecoOf = (row) => row.way?.opening?.split(" ")[0] || "";

export const runsView = {
  name: "runs",
  make(host) {
    const show = () => { if (state.file) drawRuns(host, state.file); };
    return { show, on: { facts: show } };
  },
};

function drawRuns(host, { info, unfinished }) {
  const evaluators = new Map(info.evaluators.map((each) => [each.number, each.kind]));
  const runs = [...info.runs].reverse().map((run) => [run.id, run.kind, when(run.started), run.finished ? when(run.finished) : "running, or killed", run.visits, run.evaluations, evaluators.get(run.evaluator) || run.evaluator,
    run.position ? linkTo(run.position) : "", Object.entries(run.limits).map(([name, value]) => `${name}=${value}`).join(" ")]);
  const facts = [`${info.path}, format ${info.format_version}`, `${count(info.nodes)} nodes, ${bytes(info.file_bytes)} (${info.bytes_per_node.toFixed(1)} bytes per node)`, `evaluator: ${info.evaluator ? `${info.evaluator.kind} ${info.evaluator.digest.slice(0, 8)}` : "none yet"}`];
  put(host, unfinished && h("p", { class: "failed", text: unfinished }), h("ul", { class: "plain" }, facts.map((text) => h("li", { text }))),
    table(["Line", "ECO", "Visits", "Searched (UTC)"], info.roots.map((root) => [wayTo(root), ecoOf(root), root.visits, when(root.last_searched)]), { caption: "Roots" }),
    table(["Run", "Kind", "Started (UTC)", "Finished", "Visits", "Evaluations", "Evaluator", "Position", "Limits"], runs, { caption: "Runs" }),
    table(["Number", "Kind", "Digest", "Options"], info.evaluators.map((each) => [each.number, each.kind, each.digest.slice(0, 16), JSON.stringify(each.options)]), { caption: "Evaluators" }));
}

// ------------------------------------------------------------ imports and exports
const kept = { import: { form: "pgn" }, export: { form: "pgn" } };
const same = (...values) => values.map((value) => [value, value]);
const EXPORT = [
  ["form", "Form", [["pgn", "PGN"], ["polyglot", "Polyglot"], ["epd", "EPD"], ["jsonl", "JSON lines"], ["csv", "CSV"]]], ["root", "From", [["", "all roots"], ["here", "this position"]]], ["book", "Book"],
  ["side", "Side", [["", "any"], ...same("white", "black", "both")]], ["depth", "Plies"], ["min_visits", "N at least"], ["max_moves", "Moves at most"],
  ["weights", "Weights", [["", "q of a book, else n"], ...same("n", "q")]],
];

export const filesView = {
  name: "files",
  make(host) {
    const done = h("div", {});
    const sources = h("div", {});
    const draw = () => {
      const { running, waiting, ended } = state.queue;
      put(done, h("ul", { class: "jobs" }, [...running, ...waiting, ...ended].filter((job) => ["import", "export"].includes(job.kind)).map((job) => jobRow(job))));
      const rows = (state.file?.info.imported.sources || []).map((source) => [source.kind, source.name, when(source.started), source.taken, source.skipped, source.finished ? "complete" : "broken off"]);
      put(sources, table(["Kind", "File", "Started (UTC)", "Taken", "Skipped", "State"], rows, { caption: "Imports", empty: "Nothing was imported yet." }));
    };
    put(host, state.file?.read_only ? h("p", { class: "note", text: "This page is read-only; exports work." }) : importForm(), sources, exportForm(), done);
    return { show: draw, on: { queue: draw, facts: draw } };
  },
};

function importForm() {
  const file = h("input", { type: "file", id: "import-file" });
  const box = (name, text, title = null) => h("label", { title }, h("input", { type: "checkbox", id: `import-${name}`, onchange: (event) => { kept.import[name] = event.target.checked ? "1" : ""; } }), ` ${text}`);
  const start = async () => {
    const [chosen] = file.files;
    if (!chosen) { toast("Choose a file first."); return; }
    const { form: kind, ...given } = kept.import;
    const job = await upload(`import/${kind}`, given, chosen);
    toast(`Queued: ${job.title}`);
    file.value = "";
  };
  return h("div", {}, h("h2", { text: "Import" }), form(start, fields("import", kept.import, [["form", "Kind", [["pgn", "PGN games"], ["polyglot", "Polyglot book"], ["epd", "EPD positions"]]]]), h("label", { for: "import-file", class: "hidden", text: "File" }), file,
    box("players", "keep who played", "Also of files that were imported before without: their games count no second time"), box("again", "again"), h("button", { class: "primary", text: "Import" })),
  h("p", { class: "note", text: "Plain, .gz or .zst. Games are counted move by move; they change no search." }));
}

function exportForm() {
  const start = async () => {
    const { root, ...rest } = kept.export;
    const job = await send("export", { ...rest, ...(root === "here" ? here() : {}) });
    toast(`Queued: ${job.title}`);
  };
  return h("div", {}, h("h2", { text: "Export" }), form(start, fields("export", kept.export, EXPORT), h("button", { class: "primary", text: "Export" })));
}

// ------------------------------------------------------------ books: how far they are, what they hold, and building on
const EXAMPLE = `[book]
name = "white"
side = "white"
max_ply = 16

[[root]]
moves = "1. e4"

[[window]]
plies = [0, 16]
reply_p = 0.1
reply_cp = 20

[leaf]
evaluations = 1000
`;
const building = { text: EXAMPLE, seconds: "60", evaluations: "" };

export const booksView = {
  name: "books",
  make(host) {
    const list = h("div", {});
    const area = h("textarea", { id: "book-text", rows: 14, spellcheck: "false", value: building.text, oninput: (event) => { building.text = event.target.value; } });
    const show = async () => {
      try {
        const found = await ask("books");
        put(list, found.books.length ? found.books.map((each) => book(each, area)) : h("p", { class: "note", text: found.note }));
      } catch (error) { put(list, h("p", { class: "note", text: error.message })); }
    };
    put(host, list, !state.file?.read_only && builder(area));
    return { show, on: { file: show } };
  },
};

function book(found, area) {
  const edit = () => { building.text = area.value = found.config; area.scrollIntoView({ block: "center" }); area.focus(); };
  const roots = found.roots.map((root) => [root.origin, linkTo(root.position), root.value === null ? "" : signed(forWhite({ q: root.value }, root.position).q), root.best || ""]);
  const runs = found.runs.slice(-20).reverse().map((run) => [run.number, when(run.started), run.positions, run.searched, run.evaluations, Math.round(run.seconds), run.ended || "running, or killed"]);
  return h("article", {}, h("h2", { text: `${found.name} (${found.side})` }),
    !state.file?.read_only && h("button", { type: "button", text: "Build on", onclick: edit }),
    h("p", { text: `${count(found.open)} positions searched, ${count(found.leaf)} leaves, ${count(found.end)} ends, ${count(found.moves)} moves; queue: ${Object.entries(found.queue).map(([name, n]) => `${n} ${name}`).join(", ") || "empty"}.` }),
    table(["Root", "Position", "White's Q", "Best"], roots, { caption: "Roots" }), table(["Ply", "Searched", "Leaves", "Ends"], found.plies.map((row) => [row.ply, row.open, row.leaf, row.end]), { caption: "Positions by ply" }),
    table(["Run", "Started (UTC)", "Added", "Searched", "Evaluations", "Seconds", "Ended"], runs, { caption: "Runs" }));
}

function builder(area) {
  const build = async (event) => {
    event.preventDefault();
    const job = await send("build", building);
    toast(job.notes.length ? job.notes.join(" ") : `Queued: ${job.title}`);
  };
  return h("form", { class: "builder", onsubmit: build }, h("h2", { text: "Build a book, or go on building one" }), h("label", { for: "book-text", text: "BOOK.toml" }), area,
    h("div", { class: "row" }, fields("book", building, [["seconds", "Seconds"], ["evaluations", "Evaluations"]]), h("button", { class: "primary", text: "Build" })));
}
