// Books: how far they are, what they hold, and building on.

import { ask, send } from "./api.js";
import { START, said } from "./chess.js";
import { count, fields, forWhite, h, link, put, signed, table, when } from "./dom.js";
import { open, state, toast } from "./state.js";

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
const given = { text: EXAMPLE, seconds: "60", evaluations: "" };

export const booksView = {
  name: "books",
  make(host) {
    const list = h("div", {});
    const area = h("textarea", { id: "book-text", rows: 14, spellcheck: "false", value: given.text, oninput: (event) => { given.text = event.target.value; } });
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

export const linkTo = (fen) => link(fen, () => open({ root: fen, line: [] }));

// a row about a position: the moves to it and its opening, where they are known, else the FEN
export function wayTo(row) {
  if (!row.way) return linkTo(row.position);
  const { start, line, opening } = row.way;
  return link(line.length ? said(start, line) : "start", () => open({ root: start || START, line }), [opening, row.position].filter(Boolean).join("\n"));
}

export const ecoOf = (row) => row.way?.opening?.split(" ")[0] || "";

function book(found, area) {
  const edit = () => { given.text = area.value = found.config; area.scrollIntoView({ block: "center" }); area.focus(); };
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
    const job = await send("build", given);
    toast(job.notes.length ? job.notes.join(" ") : `Queued: ${job.title}`);
  };
  return h("form", { class: "builder", onsubmit: build }, h("h2", { text: "Build a book, or go on building one" }), h("label", { for: "book-text", text: "BOOK.toml" }), area,
    h("div", { class: "row" }, fields("book", given, [["seconds", "Seconds"], ["evaluations", "Evaluations"]]), h("button", { class: "primary", text: "Build" })));
}
