// The page: the board and the line on one side, the views on the other.

import { ask, follow, Refused, send, whenDamaged } from "./api.js";
import { Board } from "./board.js";
import { after, menOf, NAMES, turnOf } from "./chess.js";
import { bytes, chip, count, forWhite, h, link, percent, put, score, short, steady, visitsOf } from "./dom.js";
import { movesView } from "./moves.js";
import { notation, openDraft, savePgn } from "./notation.js";
import { strip, toggleFollow } from "./search.js";
import { addLine, addressOf, askLines, follow as followAddress, go, holdKey, leftGameAt, node, on, open, placeOf, play, played, recall, refresh, remember, setView, showQueue, state, step, tell, toast, toEnd, whenKnown } from "./state.js";

const $ = (id) => document.getElementById(id);
const ARROWS = 5;
const SCORED = 3; // arrows with a value at the head
const LEAST_SHARE = 0.04; // of the visits that a move needs for an arrow

const board = new Board($("board"), { onMove: play, onEarly: (from, to) => whenKnown(() => board.tryMove(from, to)) });

// ------------------------------------------------------------ board and line
function arrows() {
  const found = node();
  if (!found) return [];
  const all = found.moves.reduce((sum, move) => sum + move.n, 0);
  return found.moves.filter((move) => move.n > LEAST_SHARE * all || move.mate > 0).slice(0, ARROWS)
    .map((move, k) => ({
      move: move.move, kind: k ? "other" : "best", width: Math.sqrt(all ? move.n / all : 1),
      text: k < SCORED ? score(forWhite(move, found.position)) : "",
      label: `${move.san}: ${percent(all ? move.n / all : 1)} of the visits`,
    }));
}

function showBoard() {
  const { look } = state;
  board.show({
    fen: look.position, men: menOf(look.position), legal: look.legal.map((each) => each.move),
    last: state.line[state.at - 1], check: look.check, arrows: arrows(),
  });
}

// the men at a place of the line, before anything is known of it
function showAhead({ root, line, at }) {
  const men = line.slice(0, at).reduce(after, menOf(root));
  const isWhite = (turnOf(root) === "w") === (at % 2 === 0);
  board.show({ men, last: line[at - 1], legal: null, turn: isWhite ? "w" : "b" });
  showButtons(at, line.length);
}

function showButtons(at, length) {
  for (const [id, off] of [["first", !at], ["back", !at], ["forward", at === length], ["last", at === length]]) $(id).disabled = off;
}

// the game that was opened, also where the line leaves it
function showGame() {
  const { game } = state;
  $("game").hidden = !game;
  if (!game) return;
  const { White = "?", Black = "?", Result = "", Event = "", Date: date = "" } = game.headers;
  const left = leftGameAt();
  const known = [`${White} – ${Black}`, Result, Event, date].filter((text) => !/^[?.* –]*$/.test(text));
  put($("game"), h("span", { text: known.join("  ") || "A game" }), left !== null && h("span", {}, " ",
    h("button", { type: "button", id: "to-game", class: "link", text: "back to the game", onclick: () => open({ ...game, at: left }) })));
}

// the value from White's side, as a bar beside the board
function showGauge() {
  const found = node();
  const white = !found ? null : turnOf(found.position) === "w";
  const [win, draw, loss] = found ? (white ? found.wdl : [...found.wdl].reverse()) : [0, 1, 0];
  const part = (name, share) => {
    const element = h("div", { class: name });
    element.style.flexGrow = String(Math.max(share, 0.0001));
    return element;
  };
  const text = !found || state.look.over ? "" : score(forWhite(found, found.position)); // as the notation has it
  const label = found ? `White wins ${percent(win, 0)}, draws ${percent(draw, 0)}, Black wins ${percent(loss, 0)}` : "no value yet";
  $("gauge").classList.toggle("flipped", board.flipped);
  put($("gauge"), part("black", loss), part("even", draw), part("white", win), text && h("span", { text }));
  $("gauge").setAttribute("title", label);
  $("gauge").setAttribute("aria-label", label);
}

function showNote() {
  const { evaluator, run } = state.look?.node || {};
  const source = evaluator ? ` V and P: ${evaluator.description}${run ? `, run ${run.number}` : ""}.` : "";
  $("position-note").textContent = node() ? `${count(visitsOf(node()))} visits; scores in pawns, White's view.${source}` : "";
}

function showProblem() {
  put($("problem"), [state.problem, state.look?.problem].filter(Boolean).map((text) => h("p", { text })));
}

function showPosition() {
  showProblem();
  showBoard();
  showButtons(state.at, state.line.length);
  showGame();
  showGauge();
  showNote();
  $("opening").textContent = state.look.opening || "";
  $("fen").value = state.look.position;
  $("link").value = location.origin + addressOf();
  announce();
  document.title = `${state.look.line.map((step) => step.san).slice(-4).join(" ") || "start"} · graphsearch`;
}

// a position that is pointed at, in place of the one on the board
function preview(place) {
  if (!place && !previewed) return;
  previewed = Boolean(place) && Boolean(state.look);
  board.svg.classList.toggle("preview", previewed);
  if (previewed) board.show({ ...place, legal: [] }); else if (state.look) showBoard();
}
let previewed = false;
// what was pointed at may be drawn anew, and then never tells that it was left
document.addEventListener("pointermove", (event) => { if (!event.target.closest?.(".pv, .node")) preview(null); });

on("preview", preview);
on("moving", () => { previewed = false; board.svg.classList.remove("preview"); });
on("position", showPosition);
on("ahead", showAhead);
on("problem", showProblem);
const showNumbers = () => { if (!previewed) board.setArrows(arrows()); showGauge(); showNote(); };
on("news", () => { showProblem(); showNumbers(); });
on("live", showNumbers);
on("hover", (move) => board.setArrows(move ? [{ move, kind: "hover", width: 0.5 }, ...arrows()] : arrows()));
on("error", (error) => toast(error.message));
on("told", showToast);
on("shapes", (comment) => board.drawComment(comment));
window.addEventListener("unhandledrejection", (event) => {
  if (!(event.reason instanceof Refused)) return;
  event.preventDefault();
  if (!leaving) toast(event.reason.message);
});
let leaving = false;
window.addEventListener("pagehide", () => { leaving = true; });
window.addEventListener("pageshow", () => { leaving = false; });

// for screen readers: once for each position, not with every number of a search
function announce() {
  const step = state.look.line.at(-1);
  const played = step ? `${step.turn === "w" ? "White" : "Black"} played ${step.san}. ` : "";
  $("announce").textContent = `${played}${state.look.check ? "Check. " : ""}${briefOf(state.look)[0]}`;
}

// ------------------------------------------------------------ the board by keys
// when the keyboard has gone to it, the arrow keys choose a square, Enter takes up and puts down
const KEY_STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

function boardKeys() {
  const say = (text) => { $("announce").textContent = text; }; // for screen readers
  const { svg } = board;
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("role", "application");
  svg.setAttribute("aria-roledescription", "chess board: arrow keys choose a square, Enter moves");
  let last = "e2";
  const show = (square) => { board.cursor = square; board.drawMarks(); };
  const about = (square) => {
    const man = board.state.men[square];
    return `${square}${man ? `, ${man[0] === "w" ? "white" : "black"} ${NAMES[man[1]]}` : ", empty"}`;
  };
  const step = ([right, up]) => {
    const turn = board.flipped ? -1 : 1;
    const file = Math.max(0, Math.min(7, last.charCodeAt(0) - 97 + turn * right));
    const rank = Math.max(1, Math.min(8, Number(last[1]) + turn * up));
    last = "abcdefgh"[file] + rank;
    show(last);
    say(about(last));
  };
  const act = () => {
    const { selected } = board;
    if (selected && selected !== last && board.tryMove(selected, last)) return;
    board.select(selected === last || !board.canMove(last) ? null : last);
    say(board.selected ? `${about(last)}, taken up` : `${about(last)}`);
  };
  svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) { show(last); say(about(last)); } });
  svg.addEventListener("blur", () => { show(null); });
  svg.addEventListener("pointerdown", () => show(null));
  svg.addEventListener("keydown", (event) => {
    if (event.target !== svg || event.ctrlKey || event.metaKey || event.altKey) return;
    if (KEY_STEPS[event.key]) step(KEY_STEPS[event.key]);
    else if (event.key === "Enter" || event.key === " ") act();
    else if (event.key === "Escape" && board.selected) board.select(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

boardKeys();

// ------------------------------------------------------------ what a hand does
// behind a move that is awaited, a second click is a slip, and so is a key that is held
function playBest({ type, repeat }) {
  whenKnown(() => {
    const first = node()?.moves.find((move) => move.n) || node()?.moves[0];
    if (first) play(first.move);
  }, { once: type === "click" || repeat });
}

function flip() {
  board.flip();
  showGauge();
  remember("flipped", board.flipped ? "yes" : "");
}
if (recall("flipped")) board.flip();

// what is drawn, taken up or shown above goes away
function escape() {
  board.clearDrawn();
  board.select(null);
  if (board.choosing) board.redraw();
  tell("preview", null);
  $("toast").hidden = true;
  return false; // the browser closes its own menus by this key
}

const ACTS = { // by key; the page lists them
  ArrowLeft: () => step(-1), ArrowRight: () => step(1), Home: () => go(0), End: toEnd, ArrowUp: () => desk.turn(-1), ArrowDown: () => desk.turn(1),
  " ": playBest, s: toggleFollow, "+": () => setShown(state.shown + 1), "=": () => setShown(state.shown + 1), "-": () => setShown(state.shown - 1), m: () => desk.mistake(1), M: () => desk.mistake(-1),
  w: () => { turnOn("tools", "editing", true); desk.comment(); }, t: flip, Escape: escape, "?": () => $("keys").showModal(),
};
for (const [id, key] of Object.entries({ first: "Home", back: "ArrowLeft", forward: "ArrowRight", last: "End", best: " ", flip: "t" })) $(id).addEventListener("click", ACTS[key]);
const TYPED = /^[a-hKQRBNO0]$/; // begins a move
document.addEventListener("keydown", (event) => {
  if (turnsBack(event)) return;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const act = ACTS[event.key] || ACTS[event.key.toLowerCase()];
  if ((!act && !TYPED.test(event.key)) || isTaken(event.target, event.key)) return;
  if (!act) { $("san").value = ""; $("san").focus(); return; } // where the letter goes
  holdKey(event.repeat);
  if (act(event) !== false) event.preventDefault();
});

// Ctrl-Z and Ctrl-Y, unless text is typed, which the browser turns back itself
function turnsBack(event) {
  const key = event.key.toLowerCase();
  if (!(event.ctrlKey || event.metaKey) || event.altKey || !"zy".includes(key) || isTaken(event.target, "Control") || document.querySelector("dialog[open]")) return false;
  desk.turnBack(key === "y" || event.shiftKey ? "redo" : "undo");
  event.preventDefault();
  return true;
}

document.addEventListener("keyup", () => holdKey(false));

// whether a key is for what has the focus: text that is typed, and what the keyboard has gone to
function isTaken(target, key) {
  if (target.closest("input:not([type=checkbox], [type=radio], [type=file], [type=range]), textarea, select")) return true;
  if (!target.matches(":focus-visible")) return false;
  return Boolean(target.closest(key === " " ? "button, a, summary, input" : key.length > 1 ? "[role=tab], [role=region], input" : "input"));
}

// moves as they are typed: e4, Nf3 or Nxf3, 0-0, e8Q
const bare = (word) => word.replace(/[+#=x-]/g, "").replaceAll("0", "O");
const same = (each, text) => each.move === text.toLowerCase() || bare(each.san) === bare(text);

function playTyped(text) {
  const legal = state.look?.legal || [];
  const exact = legal.filter((each) => same(each, text));
  const close = exact.length ? exact : legal.filter((each) => bare(each.san).toLowerCase() === bare(text).toLowerCase());
  if (close.length === 1) { if (play(close[0].move)) { $("san").value = ""; $("san").blur(); } } else if (text) toast(`“${text}” is not a legal move here`);
}

$("typed").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("san").value.trim();
  whenKnown(() => playTyped(text));
});

$("san").addEventListener("keydown", (event) => { if (event.key === "Escape") { $("san").value = ""; $("san").blur(); } });

// a move is played as soon as it can be no other
$("san").addEventListener("input", () => {
  const text = $("san").value.trim();
  const legal = state.look?.legal || [];
  const goesOn = legal.filter((each) => bare(each.san).startsWith(bare(text)) || each.move.startsWith(text));
  if (goesOn.length === 1 && same(goesOn[0], text)) playTyped(text);
});

window.addEventListener("popstate", followAddress);

function turnOn(button, name, isOn = !$("notation").classList.contains(name)) {
  $("notation").classList.toggle(name, isOn);
  $(button).setAttribute("aria-pressed", String(isOn));
}
$("tools").addEventListener("click", () => turnOn("tools", "editing"));
$("taller").addEventListener("click", () => turnOn("taller", "tall"));

// ------------------------------------------------------------ light and dark
const chosen = document.documentElement.dataset;
if (recall("theme")) chosen.theme = recall("theme");
$("theme").addEventListener("click", () => {
  const isDark = chosen.theme ? chosen.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  chosen.theme = isDark ? "light" : "dark";
  remember("theme", chosen.theme);
});

// damage stays in sight: every save that follows writes into the same file
function showDamage(text) {
  $("damage").hidden = false;
  put($("damage"), h("b", { text: "This file is damaged. " }), `Stop its searches, and rescue what is sound: graphsearch store salvage ${state.file?.name || "FILE"} NEW. `, h("span", { class: "note", text }));
}
whenDamaged(showDamage);
on("queue", () => {
  const failed = state.queue.ended.find((job) => job.state === "failed" && job.error.includes("store salvage"));
  if (failed) showDamage(failed.error);
});

let toastTimer = 0;
function showToast(text) {
  $("toast").textContent = text;
  $("toast").hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { $("toast").hidden = true; }, 6000);
}

// ------------------------------------------------------------ the best lines
// the brief, and lines whose moves can be played, and show their positions
const MOST_LINES = 20;
const leave = () => tell("preview", null);
const inRange = (wanted) => Math.max(1, Math.min(MOST_LINES, wanted));
state.shown = inRange(Number(recall("lines")) || state.shown);

function drawLines() {
  if (!state.look) return;
  const [first, ...rest] = briefOf(state.look);
  $("brief").textContent = first;
  put($("brief-more"), rest.map((text) => h("p", { text })));
  const rows = node()?.moves.filter((move) => move.n || move.mate).slice(0, state.shown) || [];
  put($("lines"), Array.from({ length: state.shown }, (_, k) => h("li", {}, rows[k] && rowOf(rows[k]))));
}
const showLines = steady($("lines"), drawLines);
for (const name of ["position", "news", "lines", "live"]) on(name, () => showLines(name));

function setShown(wanted) {
  state.shown = inRange(wanted);
  remember("lines", state.shown);
  drawLines();
  askLines();
}

// what to play, how sure that is and why, in sentences
const briefOf = ({ brief, over, problem }) => brief?.lines || [over ? `The game is over: ${over}.` : problem ? "" : "No search has been here."];

function rowOf(move) {
  const fen = state.look.position;
  const found = move.pv_san ? move : state.lines.get(move.move);
  const [moves, sans] = found ? [found.pv, found.pv_san] : [[move.move], [move.san]];
  const [number, black] = [Number(fen.split(" ")[5]) || 1, turnOf(fen) === "b" ? 1 : 0];
  const numberOf = (k) => ((k + black) % 2 ? (k ? null : `${number}…`) : `${number + (k + black) / 2}.`);
  const line = h("span", { class: "pv", role: "group", "aria-label": `Line of ${move.san}` }, sans.map((san, k) => h("button", {
    type: "button", class: "ply", tabindex: k ? "-1" : "0", "data-focus": `line ${move.move} ${k}`, "data-number": numberOf(k), text: san,
    onclick: () => open({ root: state.root, line: [...played(), ...moves.slice(0, k + 1)] }),
    ...Object.fromEntries(["mouseenter", "focus"].map((name) => [`on${name}`, () => tell("preview", { men: moves.slice(0, k + 1).reduce(after, menOf(fen)), last: moves[k] })])),
    onblur: leave,
  })), !found && move.n > 1 && h("button", { type: "button", class: "ply", "data-focus": `line ${move.move} 1`, "aria-label": `Show the line of ${move.san}`, text: "…", onclick: () => addLine(move.move) }));
  line.addEventListener("keydown", byArrows);
  line.addEventListener("mouseleave", leave);
  return [move.mate ? h("span", { class: "chip", text: score(forWhite(move, fen)) }) : chip(move, fen), h("span", { class: "figure number", title: `${count(move.n)} visits`, text: short(move.n) }), line];
}

// the arrow keys go from move to move of a line that the keyboard has gone to
function byArrows(event) {
  const next = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
  if (!next || !event.target.matches(":focus-visible")) return;
  event.target[next]?.focus();
  event.preventDefault();
  event.stopPropagation();
}

// ------------------------------------------------------------ FEN, PGN and links in and out
const LARGEST = 30e6; // bytes that are pasted or opened; larger files are imported

$("load").addEventListener("click", () => read($("text").value));
$("open-file").addEventListener("change", openFile);
$("save-pgn").addEventListener("click", savePgn);
document.addEventListener("paste", (event) => { // anywhere but into a field
  if (event.target.closest("input, textarea") || document.querySelector("dialog[open]")) return;
  read(event.clipboardData.getData("text"));
});
for (const name of ["fen", "link"]) $(`copy-${name}`).addEventListener("click", () => copy($(name)));

async function read(text) {
  if (!text.trim()) return;
  const found = await send("read", { text });
  const several = found.games.length > 1;
  put($("games-found"), several && gamesList(found, text), found.problems.length && h("p", { class: "note", text: found.problems.slice(0, 3).join(" ") }));
  if (several) $("exchange").open = true;
  else {
    await openGame(found.games[0], text);
    if (found.problems.length) toast(found.problems[0]);
  }
}

// a game with tags, comments or variations comes with all of it, in a notation of its own
async function openGame({ root, line, headers, number }, text) {
  if (!Object.keys(headers).length && !/[{(;$!?]/.test(text)) open({ root, line, headers: null });
  else openDraft(await send("read-tree", { text, number }), Infinity);
}

function gamesList(found, text) {
  const rows = found.games.map((game) => h("li", {}, link(`${game.headers.White || "?"} – ${game.headers.Black || "?"} ${game.headers.Result || ""} (${game.line.length} plies)`, () => openGame(game, text))));
  return h("div", {}, h("p", { class: "note", text: `${found.games.length}${found.more ? " first" : ""} games:` }), h("ol", { class: "games scroll" }, rows));
}

async function openFile() {
  const [file] = $("open-file").files;
  if (!file) return;
  if (file.size > LARGEST) toast("That is a large file; import it in the view File instead.");
  else await read(await textOf(file)).finally(() => { $("open-file").value = ""; });
}

// as UTF-8, or as the text of an old program if it is not, as imports read it
async function textOf(file) {
  const bytes = await file.arrayBuffer();
  try { return new TextDecoder("utf-8", { fatal: true }).decode(bytes); } catch { return new TextDecoder("windows-1252").decode(bytes); }
}

function copy(input) {
  input.select();
  navigator.clipboard?.writeText(input.value).catch(() => document.execCommand("copy"));
}

// ------------------------------------------------------------ the views by name, and the parts of each
// a part is { name, title, make(host) -> { show(), on: {...} } }; one that few pages need comes when it is first opened
const later = (name, title, load) => ({ name, title, load: async () => Object.values(await load()).find((part) => part.name === name) });
// and one that depends on what the file holds or allows, when that is known
const informed = (name, title, load) => later(name, title, async () => (await Promise.all([load(), state.fileKnown]))[0]);
const VIEWS = [
  ["analysis", "Analysis", [{ ...movesView, title: "Moves" }, later("graph", "Graph", () => import("./values.js")), later("values", "Values", () => import("./values.js")), informed("search", "Search", () => import("./search.js"))]],
  ["games", "Games", [informed("list", "Game list", () => import("./queries.js")), later("novelties", "Novelties", () => import("./queries.js")), later("prepare", "Prepare", () => import("./queries.js"))]],
  ["book", "Book and repertoire", [later("repertoire", "Repertoire", () => import("./repertoire.js")), informed("books", "Books", () => import("./files.js"))]],
  ["review", "Review", [informed("review", "Review", () => import("./review.js"))]],
  ["file", "File", [informed("files", "Import and export", () => import("./files.js")), informed("runs", "Runs", () => import("./files.js")), later("find", "Find", () => import("./queries.js"))]],
];
const NEWS = ["position", "news", "lines", "live", "beat", "queue", "file", "facts"];

function views() {
  const [bar, tabs, panel] = [$("views"), $("tabs"), $("panel")];
  let current = null;
  let shown = "";
  const last = new Map(); // the part of each view that was open last

  // a list of tabs; the arrow keys go through it
  function tabsOf(host, entries, chosen, choose) {
    put(host, entries.map(({ id, title }, k) => h("button", {
      type: "button", role: "tab", id, "aria-selected": String(k === chosen), "aria-controls": "panel", tabindex: k === chosen ? "0" : "-1", text: title,
      onclick: (event) => { choose(k); if (event.detail) panel.focus({ preventScroll: true }); }, // a pointer needs the keys for the board
      onkeydown: (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step) return;
        event.preventDefault();
        choose((k + step + entries.length) % entries.length);
        host.querySelector("[aria-selected=true]").focus();
      },
    })));
  }

  function show(name) {
    const at = Math.max(0, VIEWS.findIndex(([, , parts]) => parts.some((part) => part.name === name)));
    const [view, , parts] = VIEWS[at];
    const k = Math.max(0, parts.findIndex((part) => part.name === name));
    last.set(view, k);
    shown = parts[k].name;
    tabsOf(bar, VIEWS.map(([id, title]) => ({ id: `view-${id}`, title })), at, (next) => choose(VIEWS[next][2][last.get(VIEWS[next][0]) ?? 0].name));
    tabsOf(tabs, parts.map((part) => ({ id: `tab-${part.name}`, title: part.title })), k, (next) => choose(parts[next].name));
    panel.setAttribute("aria-labelledby", `tab-${shown}`);
    tell("preview", null);
    const place = h("div", { class: `view-${shown}` }); // its own: late answers to another view go nowhere
    put(panel, place);
    panel.scrollTop = 0;
    current = null;
    open(parts[k], place);
  }

  function choose(name) {
    show(name);
    setView(name);
    if (getComputedStyle(panel).overflowY === "visible") panel.parentElement.scrollIntoView({ block: "start" }); // below the board
  }

  async function open(part, place) {
    const made = part.load ? await part.load().catch((error) => tell("error", error)) : part;
    if (!made || !place.isConnected) return;
    current = made.make(place);
    current.show?.();
  }

  const news = steady(panel, (name, value) => current?.on?.[name]?.(value));
  for (const name of NEWS) on(name, (value) => news(name, value));
  on("view", (name) => { if (name !== shown) show(name); });
  show(state.view);
}

// ------------------------------------------------------------ news of the server
let stamp = null;
let waits = 0;

function showOutside(outside) {
  const holder = outside.holder;
  state.outside = outside;
  $("holder").textContent = !holder || holder.ours ? "" : `Process ${holder.pid ?? "?"} writes this file${holder.since ? ` since ${holder.since.slice(11, 16)} UTC` : ""}; the page only reads it.`;
  if (stamp !== null && stamp !== outside.stamp && !waits) {
    waits = setTimeout(() => { waits = 0; refresh(); loadFile(); tell("file"); }, 700); // not with every commit
  }
  stamp = outside.stamp;
  tell("outside");
}

async function loadFile() {
  const found = await ask("file").catch((error) => tell("error", error));
  if (!found) return;
  state.file = found;
  const { info } = state.file;
  $("file-name").textContent = state.file.name;
  $("file-facts").textContent = `${count(info.nodes)} nodes, ${bytes(info.file_bytes)}${state.file.read_only ? ", read-only" : ""}`;
  tell("facts");
}

const desk = notation();
strip($("strip"));
state.fileKnown = Promise.resolve().then(loadFile); // behind the position
views();
followAddress();
state.fileKnown.then(() => whenKnown(showRoot));

// the address "/" is the start position or, if the file does not hold it, the root that was searched last
function showRoot() {
  const [root] = state.file?.info.roots ?? [];
  if (root && !state.look?.node && location.pathname === "/" && !location.search) open(placeOf(root));
}

// counters of a server that does not answer would stand for ever
let connected = true;
follow({ file: showOutside, queue: showQueue }, (now) => {
  $("connection").textContent = now ? "" : "not connected; a new graphsearch serve prints another address";
  if (now && !connected) {
    state.problem = ""; // that the server did not answer
    if (state.look) refresh(); else followAddress();
    loadFile();
  }
  if (!now) showQueue(null);
  connected = now;
});
