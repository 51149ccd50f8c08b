// The served file beside another one: what changed, and merging that one into it.

import { ask, csvLink, latest, send } from "./api.js";
import { chip, count, h, pawns, proven, put, table } from "./dom.js";
import { ecoOf, linkTo, wayTo } from "./books.js";
import { state } from "./state.js";

const task = { number: 0 }; // the comparison that is shown
const given = { other: "", cp: "20", what: "", top: "50", turned: "" };
const KINDS = [["", "anything"], ["best", "best move"], ["q", "value"], ["bounds", "proof"], ["n", "visits"]];

export const diffView = {
  name: "diff",
  title: "Compare",
  make(host) {
    const answer = h("div", { class: "answer", "aria-live": "polite" });
    const last = latest();
    const failed = (error) => put(answer, h("p", { class: "failed", text: error.message }));
    const run = async (event) => {
      event.preventDefault();
      try { ({ number: task.number } = await send("compare", given)); follow(); } catch (error) { failed(error); }
    };
    let shown = 0;
    const follow = () => {
      const job = [...state.queue.running, ...state.queue.waiting, ...state.queue.ended].find((each) => each.number === task.number);
      if (!job || shown === job.number) return;
      if (!["running", "waiting", "interrupted"].includes(job.state)) shown = job.number;
      if (job.state === "done") last(ask("compared", task), (found) => draw(answer, found), failed);
      else put(answer, h("p", { class: job.error ? "failed" : "note" }, job.error || (shown ? "Stopped." : "Comparing… "), !shown && job.facts.total && h("progress", { max: job.facts.total, value: job.facts.done, "aria-label": "Comparing" }),
        !shown && h("button", { type: "button", text: "Stop", "data-focus": "stop compare", onclick: () => send("queue", { action: "stop", number: job.number }).catch(failed) })));
    };
    const form = h("form", { class: "inline", onsubmit: run });
    put(host, form, answer);
    withOthers(host, (choose) => put(form, choose("diff-other", "With"), choice("turned", "It is", [["", "older"], ["1", "newer"]]), choice("what", "Changed", KINDS),
      input("cp", "Centipawns at least"), input("top", "Rows"), h("button", { class: "primary", text: "Compare" })));
    return { show: follow, on: { queue: follow } };
  },
};

const keep = (name) => (event) => { given[name] = event.target.value.trim(); };
const input = (name, label) => h("div", { class: "field" }, h("label", { for: `diff-${name}`, text: label }), h("input", { id: `diff-${name}`, size: 5, inputmode: "numeric", value: given[name], oninput: keep(name) }));
const choice = (name, label, values) => h("div", { class: "field" }, h("label", { for: `diff-${name}`, text: label }), h("select", { id: `diff-${name}`, onchange: keep(name) }, values.map(([value, text]) => h("option", { value, text, selected: given[name] === value }))));

// asks which files there are, then draws a form with what chooses one of them
async function withOthers(host, drawForm) {
  try {
    const { files } = await ask("others", {});
    if (!files.length) { put(host, h("p", { class: "note", text: "No other graph file lies in the folder of this one." })); return; }
    if (!files.includes(given.other)) [given.other] = files;
    drawForm((id, label) => h("div", { class: "field" }, h("label", { for: id, text: label }), h("select", { id, onchange: keep("other") }, files.map((name) => h("option", { value: name, text: name, selected: name === given.other })))));
  } catch (error) { put(host, h("p", { class: "failed", text: error.message })); }
}

function draw(host, found) {
  const { counts } = found;
  const evaluators = found.evaluators[0] !== found.evaluators[1] && `The files have different evaluators: ${found.evaluators.join(" and ")}.`;
  const changes = found.changes.map((row) => [wayTo(row), ecoOf(row), chip(row.old, row.position), chip(row.new, row.position), row.old.best_san || "", row.new.best_san || "", row.old.n, row.new.n, proofs(row)]);
  const alone = (rows) => rows.map((row) => [wayTo(row), ecoOf(row), chip(row.worth, row.position), row.worth.best_san || "", row.worth.n]);
  const heads = ["Line", "ECO", "Score", "Best", "Visits"];
  put(host, evaluators && h("p", { class: "note", text: evaluators }),
    h("p", { text: `${count(found.both)} common positions, ${count(found.same)} the same. Changed: best move ${count(counts.best)}, ${pawns(found.cp)} or more ${count(counts.q)}, proof ${count(counts.bounds)}, visits ${count(counts.n)}. Scores in pawns, White's view.` }),
    h("div", { class: "row" }, [["changes", "changed"], ["gone", "gone"], ["come", "new"]].map(([name, text]) => h("span", { class: "note" }, `${text} `, csvLink("compared", task, name)))),
    table(["Line", "ECO", "Score before", "Score", "Best before", "Best", "Visits before", "Visits", "Proven"], changes, { caption: "Changed", empty: "No common position changed in this way." }),
    h("p", { text: `Only in ${found.old}: ${count(found.only_old)} positions. Only in ${found.new}: ${count(found.only_new)}.` }),
    found.only_old > 0 && table(heads, alone(found.gone), { caption: `Only in ${found.old}` }), found.only_new > 0 && table(heads, alone(found.come), { caption: `Only in ${found.new}` }),
    found.books.filter((book) => book.came || book.went).map((book) => table(["Change", "Position", "Move", "Visits", "Rule", "Reason"], book.changes.map((row) => [row.came ? "came" : "went", linkTo(row.position), row.san, row.n, row.rule, row.reason]), { caption: `Book ${book.book}: ${count(book.came)} moves came, ${count(book.went)} went` })));
}

function proofs({ old, new: now, position }) {
  const after = proven(now.bounds, position);
  return old.bounds.join() === now.bounds.join() ? after : `${proven(old.bounds, position) || "open"} → ${after || "open"}`;
}

// ------------------------------------------------------------ merging
export function mergeForm(toast) {
  const row = h("div", { class: "row" });
  const start = async (event) => {
    event.preventDefault();
    try { const job = await send("merge", { other: given.other }); toast(`Queued: ${job.title}`); } catch (error) { toast(error.message); }
  };
  const form = h("form", { onsubmit: start, hidden: Boolean(state.file?.read_only) }, h("h2", { text: "Merge" }), row, h("p", { class: "note", text: "Adds the content of another graph file. That file is only read." }));
  withOthers(row, (choose) => put(row, choose("merge-other", "File"), h("button", { class: "primary", text: "Merge" })));
  return form;
}
