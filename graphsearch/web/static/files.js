// The file itself: runs, roots and evaluators; imports, exports and downloads.

import { send, upload } from "./api.js";
import { bytes, count, fields, form, h, put, table, when } from "./dom.js";
import { downloadOf, jobRow, progressOf } from "./search.js";
import { here, state, toast } from "./state.js";
import { ecoOf, linkTo, wayTo } from "./books.js";

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
      put(done, h("ul", { class: "jobs" }, [...running, ...waiting, ...ended].filter((job) => ["import", "export"].includes(job.kind)).map((job) => jobRow(job, job.state === "running" && progressOf(job), downloadOf(job)))));
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
