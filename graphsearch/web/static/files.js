// The file itself: runs, roots and evaluators; imports, exports and downloads.

import { send, upload } from "./api.js";
import { bytes, count, h, percent, put, table, when } from "./dom.js";
import { endOf } from "./search.js";
import { here, state } from "./state.js";
import { ecoOf, linkTo, wayTo } from "./books.js";

export const runsView = {
  name: "runs",
  title: "Runs",
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
const KINDS = [["pgn", "PGN games"], ["polyglot", "Polyglot book"], ["epd", "EPD positions"]];
const given = { form: "pgn", depth: "", min_visits: "", side: "", max_moves: "", book: "", weights: "", root: "" };

export const filesView = {
  name: "files",
  title: "Files",
  make(host, { toast }) {
    const done = h("div", {});
    const sources = h("div", {});
    const draw = () => {
      drawJobs(done);
      const rows = (state.file?.info.imported.sources || []).map((source) => [source.kind, source.name, when(source.started), source.taken, source.skipped, source.finished ? "complete" : "broken off"]);
      put(sources, table(["Kind", "File", "Started (UTC)", "Taken", "Skipped", "State"], rows, { caption: "Imports", empty: "Nothing was imported yet." }));
    };
    put(host, state.file?.read_only ? h("p", { class: "note", text: "This page is read-only; exports work." }) : importForm(toast), sources, exportForm(toast), done);
    return { show: draw, on: { queue: draw, facts: draw } };
  },
};

function importForm(toast) {
  const kind = h("select", { id: "import-kind" }, KINDS.map(([value, text]) => h("option", { value, text })));
  const file = h("input", { type: "file", id: "import-file" });
  const again = h("input", { type: "checkbox", id: "import-again" });
  const players = h("input", { type: "checkbox", id: "import-players" });
  const bar = h("progress", { hidden: true, "aria-label": "Upload" });
  const start = async (event) => {
    event.preventDefault();
    const [chosen] = file.files;
    if (!chosen) { toast("Choose a file first."); return; }
    bar.hidden = false;
    try {
      const query = new URLSearchParams({ name: chosen.name, ...(again.checked ? { again: "1" } : {}), ...(players.checked ? { players: "1" } : {}) });
      const job = await upload(`import/${kind.value}?${query}`, chosen, (sent, all) => { bar.max = all; bar.value = sent; });
      toast(`Queued: ${job.title}`);
      file.value = "";
    } catch (error) { toast(error.message); }
    bar.hidden = true;
  };
  return h("form", { onsubmit: start }, h("h2", { text: "Import" }), h("div", { class: "row" }, h("label", { for: "import-kind", text: "Kind" }), kind, h("label", { for: "import-file", class: "hidden", text: "File" }), file,
    h("label", { title: "Also of files that were imported before without: their games count no second time" }, players, " keep who played"), h("label", {}, again, " again"), h("button", { class: "primary", text: "Import" }), bar), h("p", { class: "note", text: "Plain, .gz or .zst. Games are counted move by move; they change no search." }));
}

function exportForm(toast) {
  const keep = (name) => (event) => { given[name] = event.target.value.trim(); };
  const input = (name, label, size = 6) => h("div", { class: "field" }, h("label", { for: `export-${name}`, text: label }), h("input", { id: `export-${name}`, size, value: given[name], oninput: keep(name) }));
  const choice = (name, label, values) => h("div", { class: "field" }, h("label", { for: `export-${name}`, text: label }), h("select", { id: `export-${name}`, onchange: keep(name) }, values.map(([value, text]) => h("option", { value, text, selected: given[name] === value }))));
  const start = async (event) => {
    event.preventDefault();
    const { root, ...rest } = given;
    try { const job = await send("export", { ...rest, ...(root === "here" ? here() : {}) }); toast(`Queued: ${job.title}`); } catch (error) { toast(error.message); }
  };
  return h("form", { onsubmit: start }, h("h2", { text: "Export" }), h("div", { class: "inline" },
    choice("form", "Form", [["pgn", "PGN"], ["polyglot", "Polyglot"], ["epd", "EPD"], ["jsonl", "JSON lines"], ["csv", "CSV"]]),
    choice("root", "From", [["", "all roots"], ["here", "this position"]]), input("book", "Book"), choice("side", "Side", [["", "any"], ["white", "white"], ["black", "black"], ["both", "both"]]),
    input("depth", "Plies"), input("min_visits", "N at least"), input("max_moves", "Moves at most"),
    choice("weights", "Weights", [["", "q of a book, else n"], ["n", "n"], ["q", "q"]]), h("button", { class: "primary", text: "Export" })));
}

function drawJobs(host) {
  const all = [...state.queue.running, ...state.queue.waiting, ...state.queue.ended].filter((job) => ["import", "export"].includes(job.kind));
  put(host, h("ul", { class: "jobs" }, all.map((job) => h("li", { class: job.state }, h("span", { class: "state", text: job.state }),
    h("span", { class: "title", text: ["waiting", "running"].includes(job.state) ? job.title : endOf(job) }),
    job.state === "running" && job.facts.total && h("progress", { max: job.facts.total, value: job.facts.done, title: percent(job.facts.done / job.facts.total, 0), "aria-label": job.title }),
    job.kind === "export" && job.state === "done" && h("a", { class: "button", href: `/api/download/${job.number}`, text: "Download" })))));
}
