// Searches: the strip above the views, the search that goes where the board goes, the moves that searches may take,
// the settings, and the queue.

import { send } from "./api.js";
import { bytes, clock, count, fields, h, link, percent, points, put, short } from "./dom.js";
import { here, on, play, setView, state, tell, toast, whenKnown } from "./state.js";

const running = () => state.queue.running.find((job) => job.kind !== "export") || null;

// ------------------------------------------------------------ the strip
export function strip(host) {
  const start = h("button", { type: "button", id: "start", class: "primary", text: "Search", title: "Search this position with the settings below Analysis, Search", onclick: () => send("search", searchHere()) });
  const stop = h("button", { type: "button", id: "stop", class: "primary stop", text: "Stop", onclick: () => { const job = running(); if (job) send("queue", { action: "stop", number: job.number, hold: true }); } });
  const text = h("span", { class: "counters", id: "counters" });
  put(host, start, stop, followSwitch(), text);
  let isHere = false; // whether the keyboard was on the button that has to give way to the other
  const draw = () => {
    isHere ||= [start, stop].some((each) => each.matches(":focus-visible"));
    const job = running();
    const held = state.outside.holder && !state.outside.holder.ours;
    start.hidden = Boolean(state.file?.read_only);
    start.disabled = Boolean(job) || Boolean(held);
    stop.hidden = !job;
    stop.disabled = Boolean(job?.stopping);
    const usable = [start, stop].find((each) => !each.hidden && !each.disabled);
    if (isHere && usable) {
      if ([document.body, start, stop].includes(document.activeElement)) usable.focus({ focusVisible: true });
      isHere = false;
    }
    const { length } = state.queue.waiting;
    put(text, job ? [h("b", { text: job.title, title: job.title }), length > 0 && h("span", { class: "muted", text: ` +${length} in the queue` }), ...countersOf(job)] : lastWord(held));
  };
  for (const name of ["queue", "outside", "facts"]) on(name, draw);
  draw();
}

function lastWord(held) {
  if (held) return h("span", { class: "muted", text: "Another program is searching this file." });
  const waits = state.queue.waiting.length;
  if (waits && state.queue.held) return link(`${waits} in the queue, which is held.`, () => { setView("search"); tell("view", "search"); });
  const job = state.queue.ended.find((each) => each.kind !== "export");
  if (!job) return h("span", { class: "muted", text: state.file?.read_only ? "Read-only." : "Nothing is running." });
  return h("span", { class: job.state === "failed" ? "failed" : "muted", text: endOf(job), title: endOf(job) });
}

const REASONS = { visits: "", evaluations: "", time: "", stop: "stopped", memory: "memory is full", proven: "the result is proven", exhausted: "nearly every position is known", tablebase: "the tablebases know the result", finished: "the game is over", reader: "another program keeps the file's log" };

function endOf(job) {
  if (job.state === "failed") return `${job.title}: ${job.error}`;
  const { facts } = job;
  const parts = [job.title];
  if (facts.new_visits !== undefined) parts.push(`${count(facts.new_visits)} visits, ${count(facts.evaluations)} evaluations`);
  if (facts.added !== undefined) parts.push(`${count(facts.searched)} positions searched, ${count(facts.added)} added`);
  if (facts.reviewed !== undefined) parts.push(`${points(facts.reviewed, "game")} reviewed`);
  if (facts.new_taken !== undefined) parts.push(facts.state === "known" ? "imported before" : `${count(facts.new_taken)} taken, ${count(facts.new_skipped)} skipped`);
  if (facts.form && facts.positions !== undefined && facts.moves !== undefined && job.kind === "export") parts.push(`${count(facts.positions)} positions, ${count(facts.moves)} moves`);
  const reason = REASONS[facts.reason] ?? "";
  return `${parts.join(": ")}${reason ? `; ${reason}` : ""} (${clock(job.seconds)})${job.state === "stopped" && !reason ? ", stopped" : ""}`;
}

const STAGES = { waiting: "waits until another program has written this file…", starting: "starting…", compiling: "compiling kernels, once…", loading: "loading the book…", resting: "there is nothing more to search here", checking: "checking the book…" };

function countersOf(job) {
  const { facts } = job;
  if (job.stopping) return [facts.counters ? " finishing the wave and saving…" : " ending…"];
  const c = facts.counters;
  if (c) {
    const each = [
      ["time", clock(c.seconds)], ["visits", count(c.visits)], ["visits/s", short(c.visits_per_s)], ["evaluations/s", short(c.evaluations_per_s)],
      ["depth", `${c.depth}/${c.seldepth}`], ["nodes", short(c.nodes)], ["in RAM", `${percent(c.nodes ? Math.min(1, c.resident / c.nodes) : 1, 0)}, ${bytes(c.ram_bytes)}`], ["read back", short(c.read_back)], ["written", short(c.written)],
    ];
    const reading = facts.reading
      ? [h("progress", { max: facts.reading[1], value: facts.reading[0], "aria-label": "reading the graph" }), ` reading the graph: ${short(facts.reading[0])} of ${short(facts.reading[1])} nodes`]
      : [];
    return [...reading, ...each.map(([name, value]) => h("span", { class: "counter" }, h("span", { class: "muted", text: name }), " ", h("span", { class: "value", "data-counter": name, text: value })))];
  }
  if (facts.total) return [h("progress", { max: facts.total, value: facts.done, "aria-label": facts.stage }), ` ${facts.stage}${facts.count ? `, ${count(facts.count)} (${short(facts.rate)}/s)` : ""}`];
  if (facts.searched !== undefined) return [` ${facts.stage === "building" ? facts.line || "…" : facts.stage}: ${count(facts.searched)} searched, ${count(facts.positions)} positions, ${count(facts.leaves)} leaves, ${count(facts.evaluations)} evaluations`];
  return [` ${STAGES[facts.stage] || "starting…"}`];
}

const REST_MS = 120; // for which the board rests before the search comes

const limits = new Map(); // sets of moves that searches leave out, by FEN
let timer = 0;
let left = 0; // the task that this page has ended; the server's word comes later
let goesThere = false; // whether the search goes to the position that is awaited

const followJob = () => state.queue.running.find((one) => one.kind === "follow") || state.queue.waiting.find((one) => one.kind === "follow");
const isFollowing = () => Boolean(followJob() && !followJob().stopping && followJob().number !== left);

// ------------------------------------------------------------ moves that are searched
export const leftOut = () => limits.get(state.look?.position) || new Set();
export const isLeftOut = (move) => leftOut().has(move);
const taken = () => state.look.legal.map((each) => each.move).filter((move) => !isLeftOut(move));

// the moves of the position that a search may take, as words; empty: all
const searchedMoves = () => (leftOut().size ? taken().join(" ") : "");

export function leaveOut(moves) {
  if (moves.length === state.look.legal.length) { toast("One move at least must be searched."); return; }
  if (moves.length) limits.set(state.look.position, new Set(moves)); else limits.delete(state.look.position);
  tell("news", state.look);
  if (state.queue.running.some((one) => one.kind === "follow" || (one.kind === "search" && !one.waits))) follow();
}

export function limitNote(sanOf) {
  const [out, others] = [[...leftOut()], taken()];
  const names = (moves) => moves.map(sanOf).join(", ");
  return out.length > 0 && h("div", { class: "limit" }, others.length <= out.length ? `The search takes only ${names(others)}. ` : `The search leaves out ${names(out)}. `, h("button", { type: "button", class: "link", "data-focus": "all moves", text: "Take all moves", onclick: () => leaveOut([]) }));
}

// ------------------------------------------------------------ the search that goes where the board goes
function follow() {
  clearTimeout(timer);
  left = 0;
  if (!state.look) { whenKnown(follow); return; } // a page that has just been opened
  if (state.look.over) return;
  const { evaluator, threads, ram, params } = settings();
  send("follow", { ...here(), searchmoves: searchedMoves(), evaluator, threads, ram, params });
}

function followNot() {
  clearTimeout(timer);
  if (!followJob()) return;
  left = followJob().number;
  send("queue", { action: "stop", number: left, hold: true });
}

function followSwitch() {
  const box = h("input", { type: "checkbox", id: "follow", onchange: () => { if (box.checked) follow(); else followNot(); } });
  const label = h("label", { class: "switch", title: "Where the board goes, the search goes (s)" }, box, " Follow the board");
  const show = () => {
    box.checked = isFollowing();
    label.hidden = Boolean(state.file?.read_only);
  };
  for (const name of ["queue", "facts"]) on(name, show);
  let shown = false; // another window that opens does not take the search away
  on("position", () => {
    clearTimeout(timer);
    if (goesThere || (shown && isFollowing())) timer = setTimeout(follow, goesThere ? 0 : REST_MS);
    [shown, goesThere] = [true, false];
  });
  on("moving", () => clearTimeout(timer));
  show();
  return label;
}

export const searchBehind = (move) => { goesThere = play(move); };
export const toggleFollow = () => { if (isFollowing()) followNot(); else follow(); };

// ------------------------------------------------------------ settings, kept while the page is open
const kept = { visits: "", evaluations: "", seconds: "", searchmoves: "", evaluator: "", threads: "", ram: "", params: "" };
const settings = () => Object.fromEntries(Object.entries(kept).filter(([, value]) => value !== ""));

const searchHere = () => ({ ...here(), ...settings(), searchmoves: searchedMoves() || kept.searchmoves });

export const searchView = {
  name: "search",
  make(host) {
    const queue = h("div", { class: "queue" });
    const draw = () => drawQueue(queue);
    put(host, state.file?.read_only ? h("p", { class: "note", text: "This page is read-only." }) : settingsForm(), h("h2", { text: "Queue" }),
      h("p", { class: "note", text: "What waits goes on when the page is closed, one task after the other. The file keeps it when graphsearch serve ends." }), queue);
    return { show: draw, on: { queue: draw } };
  },
};

function settingsForm() {
  const evaluators = (state.file?.evaluators || []).map((name) => [name, name]);
  const group = (legend, ...list) => h("fieldset", {}, h("legend", { text: legend }), fields("set", kept, list));
  return h("form", { class: "settings", onsubmit: (event) => { event.preventDefault(); send("search", searchHere()); } },
    group("Stop after", ["visits", "Visits", "no limit"], ["evaluations", "Evaluations", "no limit"], ["seconds", "Seconds", "no limit"]),
    group("How", ["searchmoves", "Only these moves", "e4 d4"], ["evaluator", "Evaluator", evaluators], ["threads", "Threads", "all cores"], ["ram", "RAM", "80 % of the machine's"], ["params", "Parameters", "CPuct=2 Gather=classic"]),
    h("div", { class: "row" }, h("button", { class: "primary", text: "Search now" }),
      h("button", { type: "button", text: "Queue this position", onclick: () => send("search", { ...searchHere(), queue: true }) })));
}

// a task in a list: how far it is or how it ended, what it has written, and what it has left out
export const jobRow = (job, ...more) => h("li", { class: job.state }, h("span", { class: "state", text: job.stopping ? "stopping" : job.state }), h("span", { class: "title", text: ["waiting", "running"].includes(job.state) ? job.title : endOf(job) }),
  job.state === "running" && progressOf(job), downloadOf(job), problemsOf(job), more);
const downloadOf = (job) => job.kind === "export" && job.state === "done" && !job.facts.missing && h("a", { class: "button", href: `/api/download/${job.number}`, text: "Download" });

function drawQueue(host) {
  const { running: now, waiting, ended, held, memory_only: alone } = state.queue;
  const order = (body) => send("queue", body);
  const stop = (job, text) => h("button", { type: "button", text, "data-focus": `stop ${job.number}`, disabled: job.stopping, onclick: () => order({ action: "stop", number: job.number }) });
  put(host, alone && h("p", { class: "note", text: alone[0].toUpperCase() + alone.slice(1) + "." }), h("ul", { class: "jobs" }, now.map((job) => jobRow(job, stop(job, "Skip"))), waiting.map((job) => jobRow(job, stop(job, "Remove"))), ended.map((job) => jobRow(job))),
    !now.length && !waiting.length && !ended.length && h("p", { class: "note", text: "The queue is empty." }),
    waiting.length > 0 && h("div", { class: "row" }, held ? h("button", { type: "button", class: "primary", text: "Go on", "data-focus": "hold", onclick: () => order({ action: "go" }) }) : h("button", { type: "button", text: "Hold", "data-focus": "hold", onclick: () => order({ action: "hold" }) }),
      h("button", { type: "button", text: "Remove all that waits", onclick: () => order({ action: "clear" }) })),
    ended.length > 0 && h("button", { type: "button", text: "Forget what has ended", onclick: () => order({ action: "forget" }) }));
}

function problemsOf({ facts }) {
  if (!facts.problems?.length) return null;
  const lines = facts.problems.map((one) => h("li", { text: typeof one === "string" ? one : `${facts.kind === "polyglot" ? "entry" : "line"} ${one.line ?? one.place}: ${one.reason}` }));
  return h("details", {}, h("summary", { text: `${points(facts.found ?? lines.length, "problem")}` }), h("ul", {}, lines));
}

function progressOf(job) {
  const { facts } = job;
  if (facts.total) return h("progress", { max: facts.total, value: facts.done, "aria-label": job.title });
  return facts.counters ? h("span", { class: "muted", text: `${count(facts.counters.new_visits)} visits` }) : null;
}
