// The notation: the game with its variations, as a draft of the page or as a study of the file.
//
// Moves that are played go into it; a line that is only looked at does not, unless a hand says so.

import { ask, latest, send } from "./api.js";
import { download, h, points, put, score } from "./dom.js";
import { editor } from "./notation_edit.js";
import { drawTree, MISTAKES } from "./notation_view.js";
import { addressOf, here, on, open, played, refresh, state, tell, toast } from "./state.js";
import { START_NODE, Tree } from "./tree.js";

const $ = (id) => document.getElementById(id);
const MOST_VALUES = 1000; // moves whose values are asked for
const VALUES_MS = 250;
const MOST_PAST = 100; // changes that undo leads back to
const MS_PER_VALUE = 5; // between two questions to a running search

let pane = draft(null); // what is shown: { tree, root, comment, headers, study, revision, name, game }
let current = null; // the node of the board's position; null where the notation does not have it
let values = new Map();
let buttons = new Map();
let saving = Promise.resolve();
let waits = 0; // changes that are not written yet
let closed = ""; // why the file takes no changes
const done = []; // what this page changed last, for undo: a draft and what it was, or {} for the file
const undone = [];
let wanted = null; // the move of a study that an address names
const isClosed = () => (pane.study ? closed : "");
const edit = editor({ change, here: () => (current === null ? null : pane.tree.node(current)), pane: () => pane, isClosed });
const worth = latest();

function draft(game, { root = null, tree = new Tree(), comment = "", headers = {} } = {}) {
  return settled({ tree, root, comment, headers, study: 0, revision: 0, name: "", game });
}

// with a copy of what it is now, to which undo leads back
function settled(mine) {
  return Object.assign(mine, { now: { tree: mine.tree.copy(), comment: mine.comment } });
}

// the last node that the moves on the board lead to
const placeHere = () => pane.tree.find(pane.root === state.root ? played() : []).id;

const places = () => [...state.look.line, ...state.look.rest];

// ------------------------------------------------------------ where the board is
function arrived() {
  const line = places();
  if (!pane.study) keepDraft(line);
  const isHere = pane.root === state.root;
  const found = isHere ? pane.tree.find(state.line) : { id: START_NODE, plies: 0 };
  if (isHere && state.adds && found.plies < line.length && !isClosed()) save(grow(found.id, line.slice(found.plies)));
  locate();
}

// a new game, another root or another line begins another draft, unless somebody has written in this one
function keepDraft(line) {
  const isGame = state.game && sameGame(state.game, pane.game);
  if (pane.root === state.root && (isGame || !state.game)) {
    const known = pane.tree.find(state.line).plies === line.length;
    if (known || state.adds || isGame || !pane.tree.isPlain) return;
  }
  pane = draft(state.game, { root: state.root, headers: state.game?.headers });
  values = new Map();
  grow(START_NODE, line);
  settled(pane);
  if (state.game && pane.tree.find(state.game.line).plies < state.game.line.length) bringGame(line);
}

// the game in front of a line that left it
async function bringGame(line) {
  const mine = pane;
  const { line: moves } = await ask("position", { root: mine.root, line: mine.game.line.join(" ") });
  if (pane !== mine || mine.study || mine.tree.size > line.length) return;
  mine.tree = new Tree();
  grow(START_NODE, moves);
  const found = mine.tree.find(line.map((step) => step.move));
  grow(found.id, line.slice(found.plies));
  settled(mine);
  locate();
  draw();
}

const sameGame = (one, other) => other && one.root === other.root && one.line.join() === other.line.join();

// adds moves behind a node; returns what it changed
function grow(from, steps) {
  let at = from;
  const put = [];
  for (const { move, san } of steps) {
    const { node, change: made } = pane.tree.add(at, move, san);
    put.push(...made.put);
    at = node.id;
  }
  return { put };
}

// the move that a held key has come to
function ahead({ root, line, at }) {
  const found = root === pane.root ? pane.tree.find(line.slice(0, at)) : null;
  buttons.get(current)?.removeAttribute("aria-current");
  if (found?.plies !== at) return;
  current = found.id;
  buttons.get(current)?.setAttribute("aria-current", "step");
  reveal();
}

// the node of the board, and the line that goes on from there
function locate() {
  const isHere = pane.root === state.root;
  const found = isHere ? pane.tree.find(played()) : null;
  current = found?.plies === state.at ? found.id : null;
  if (current !== null) {
    const end = pane.tree.find(state.line);
    const isWhole = end.plies === state.line.length; // the line may go on in a variation
    state.line = [...(isWhole ? state.line : played()), ...pane.tree.rest(isWhole ? end.id : current).map((node) => node.move)];
  }
  state.study = pane.study ? `${pane.study}${current ? `.${pane.tree.number(current)}` : ""}` : "";
}

function goTo(id) {
  const path = pane.tree.path(id);
  const line = [...path, ...pane.tree.rest(id)].map((node) => node.move);
  open({ root: pane.root, line, at: path.length, game: pane.game || undefined, headers: pane.study ? null : undefined });
}

// the other variations of the move on the board
function turn(by) {
  if (!current) return false;
  const kids = pane.tree.node(pane.tree.node(current).parent).kids;
  const next = kids[kids.indexOf(current) + by];
  if (next) goTo(next);
  return Boolean(next);
}

// to the next mistake of the line, or the one before
function mistake(by) {
  const line = [...pane.tree.path(current ?? START_NODE), ...pane.tree.rest(current ?? START_NODE)];
  const at = line.findIndex((node) => node.id === current);
  const found = by > 0 ? line.slice(at + 1) : line.slice(0, Math.max(0, at)).reverse();
  const next = found.find((node) => node.nags.some((nag) => MISTAKES.includes(nag)));
  if (next) goTo(next.id); else toast(by > 0 ? "No mistake is marked behind this move." : "No mistake is marked before this move.");
}

// ------------------------------------------------------------ changes
// writes what was changed in the tree, and draws it
function change(made, { to = null } = {}) {
  save(made);
  if (to !== null && to !== current) goTo(to);
  else { locate(); draw(); }
}

function save(made) {
  if (!made || !(made.put?.length || made.drop || made.says)) return;
  noteChange(pane.study ? {} : { draft: pane, was: pane.now });
  if (!pane.study) { settled(pane); return; }
  const mine = pane;
  (mine.unsaved ||= []).push({ ...made, game: gameOf(mine) });
  waits += 1;
  saving = saving.then(() => write(mine)).finally(() => { waits -= 1; showState(); });
}

const MOST_TRIES = 5; // while others write the same study

async function write(mine) {
  if (mine.stale) { toast("This change is not saved: open the study again."); return; }
  try {
    for (let tries = 1; mine.unsaved.length; tries += 1) {
      const sent = await send("study-change", { id: mine.study, revision: mine.revision, game: mine.unsaved[0].game })
        .catch((error) => { if (error.status === 409 && tries < MOST_TRIES) return null; throw error; });
      if (!sent) { await repeat(mine); continue; }
      Object.assign(mine, { revision: sent.revision, name: sent.name });
      mine.unsaved.shift();
    }
  } catch (error) {
    mine.stale = true; // what follows was made on top of what is not saved
    toast(error.message);
    if (pane === mine) await openStudy(mine.study, { node: null });
  }
}

// what is not saved yet, made once more on top of what another window has written
async function repeat(mine) {
  const study = await ask("study", { id: mine.study });
  const path = current === null ? null : mine.tree.path(current).map((node) => node.move);
  const { revision, name, headers, comment } = study;
  Object.assign(mine, { tree: new Tree(study.moves), revision, name, headers, comment });
  for (const made of mine.unsaved) {
    mine.tree.repeat(made);
    if (made.says) mine.comment = made.comment;
    made.game = gameOf(mine);
  }
  if (pane !== mine) return;
  const found = path && mine.tree.find(path);
  current = found?.plies === path?.length ? found?.id ?? null : null;
  locate();
  draw();
  toast(`The study ${study.name} was changed elsewhere; it is shown as it is now, with your changes.`);
}

// ------------------------------------------------------------ undo and redo
function noteChange(made = {}) {
  done.push(made);
  if (done.length > MOST_PAST) done.shift();
  undone.length = 0;
}

// the draft is turned back here, all else by the server, which has the edits of other windows too
async function turnBack(act) {
  const [from, to] = act === "undo" ? [done, undone] : [undone, done];
  let made = from.pop();
  while (made?.draft && made.draft !== pane) made = from.pop();
  if (!made?.draft) { await turnFile(act, () => to.push({})); return; }
  to.push({ draft: pane, was: pane.now });
  Object.assign(pane, { now: made.was, tree: made.was.tree.copy(), comment: made.was.comment });
  locate();
  draw();
  if (current === null) goTo(placeHere());
  else history.replaceState(null, "", addressOf());
}

async function turnFile(act, onDone) {
  await saving;
  const { edit: found } = await send(act);
  if (!found) { toast(act === "undo" ? "There is nothing to undo." : "There is nothing to redo."); return; }
  onDone();
  toast(`${act === "undo" ? "Undone" : "Done again"}: ${editOf(found)}.`);
  const shown = found.returned.length === 1 && !pane.study ? found.returned[0] : pane.study;
  if (found.gone.includes(shown)) await look();
  else if (found.studies.includes(shown)) await openStudy(shown, { node: shown === pane.study ? null : START_NODE });
  refresh();
  tell("file");
}

function editOf({ names, notes, sides }) {
  const [name, ...others] = names;
  return [name && `the study ${name}${others.length ? ` and ${points(others.length, "other")}` : ""}`,
    notes.length && "a note", ...sides.map((side) => `${side === "white" ? "White’s" : "Black’s"} repertoire`)].filter(Boolean).join(", ");
}

// ------------------------------------------------------------ studies
export async function savePgn() {
  const { pgn } = await send("tree-pgn", gameOf(pane));
  download(new Blob([pgn], { type: "application/x-chess-pgn" }), "game.pgn");
}

// a game as the server reads it
const gameOf = ({ tree, root, comment, headers }) => ({ root, moves: tree.rows, comment, headers });

// node: the number of the move to go to; null: the one on the board
function show(study, node) {
  pane = { tree: new Tree(study.moves), root: study.fen, comment: study.comment, headers: study.headers, study: study.id, revision: study.revision, name: study.name, game: null, lost: study.left_out.length };
  values = new Map();
  current = null;
  goTo(pane.tree.node(node) ? node : placeHere());
}

async function openStudy(id, { node = START_NODE } = {}) {
  show(await ask("study", { id }), node);
}

// the draft, or a copy of the study, as a new study
async function keep(name) {
  const study = await send("study-new", { name, game: gameOf(pane) });
  const path = current === null ? [] : pane.tree.path(current).map((each) => each.move);
  noteChange();
  show(study, new Tree(study.moves).find(path).id);
}

function renamed({ id, name, revision }) {
  noteChange();
  if (id !== pane.study) return;
  Object.assign(pane, { name, revision });
  showState();
}

function close() {
  pane = draft(null);
  if (state.look) { arrived(); draw(); history.replaceState(null, "", addressOf()); }
}

// a game with variations from a text, as a draft
export function openDraft({ fen, moves, comment, headers, left_out: lost = [] }, at = 0, review = null) {
  const tree = new Tree(moves);
  const line = tree.rest(START_NODE).map((node) => node.move);
  const game = { root: fen, line, headers, review };
  pane = draft(game, { root: fen, tree, comment, headers });
  values = new Map();
  open({ root: fen, line, at: Math.min(at, line.length), game });
  if (lost.length) toast(`Left out: ${lost.slice(0, 3).join("; ")}${lost.length > 3 ? ` and ${lost.length - 3} more` : ""}`);
}

// a study that another window, or the command line, has changed
async function look() {
  if (!pane.study || waits) return;
  const { studies } = await ask("studies");
  const mine = studies.find((each) => each.id === pane.study);
  if (waits || mine?.revision === pane.revision) return;
  if (!mine) { toast(`The study ${pane.name} was deleted; what is shown is a draft now.`); settled(Object.assign(pane, { study: 0, revision: 0 })); locate(); draw(); return; }
  await openStudy(pane.study, { node: null });
  toast(`The study ${mine.name} was changed elsewhere; it is shown as it is now.`);
}

// ------------------------------------------------------------ drawing
function draw() {
  buttons = drawTree($("line"), { tree: pane.tree, root: pane.root || state.root, comment: pane.comment, current, values }, goTo);
  if (!buttons.size && !pane.comment) put($("line"), h("li", { class: "note", text: "Play a move, or open a game or a study." }));
  reveal();
  showState();
  edit.show();
  showElsewhere();
  askValues();
}

function reveal() {
  const button = buttons.get(current);
  const list = $("line");
  if (!button) { if (current === START_NODE) list.scrollTop = 0; return; }
  const [top, height] = [button.offsetTop, button.offsetHeight]; // the list is what they are measured in
  if (top < list.scrollTop || top + height > list.scrollTop + list.clientHeight) list.scrollTop = top - list.clientHeight / 2;
}

// a line that is looked at and does not stand in the notation
function showElsewhere() {
  const line = places().slice(0, state.at).map((step) => step.san).join(" ");
  const isRoot = pane.root === state.root;
  put($("elsewhere"), current === null && [
    h("span", { text: isRoot ? `Not in the notation: ${line}` : "The board shows a position of another game." }),
    isRoot && !isClosed() && h("button", { type: "button", id: "add-line", text: "Add this line", onclick: addLine }),
    h("button", { type: "button", id: "to-notation", text: "Back to the notation", onclick: () => goTo(pane.tree.find(isRoot ? state.line : []).id) }),
  ]);
}

function addLine() {
  const found = pane.tree.find(state.line);
  change(grow(found.id, places().slice(found.plies)));
  history.replaceState(null, "", addressOf());
}

function showState() {
  $("notation-name").textContent = pane.study ? pane.name : "Notation";
  const parts = pane.study ? [closed ? "read-only" : pane.stale ? "not saved" : waits ? "saving…" : "saved"] : [];
  if (pane.lost) parts.push(`${points(pane.lost, "part")} of it cannot be read`);
  $("notation-state").textContent = parts.join(", ");
  $("keep").hidden = Boolean(closed || pane.study);
  $("close-study").hidden = !pane.study;
}

function askValues({ now = false } = {}) {
  const mine = pane;
  const nodes = [...pane.tree.walk()].slice(0, MOST_VALUES);
  if (!nodes.length) return;
  const numbers = new Map([[START_NODE, 0], ...nodes.map((node, k) => [node.id, k + 1])]);
  const moves = nodes.map((node) => [numbers.get(node.parent), node.move]);
  const asked = JSON.stringify([pane.root, moves, state.outside.stamp]);
  if (asked === mine.valued && !now) return;
  if (now && Date.now() - mine.asked < nodes.length * MS_PER_VALUE) return; // a search answers this itself
  mine.asked = Date.now();
  clearTimeout(mine.timer);
  mine.timer = setTimeout(() => worth(send("tree-values", { root: mine.root, moves }), (answer) => {
    if (pane !== mine) return;
    mine.valued = asked;
    const found = new Map(nodes.map((node, k) => [node.id, answer.values[k] && `${score(answer.values[k])}${answer.values[k].edge ? " (older)" : ""}`]).filter(([, text]) => text));
    const isSame = found.size === values.size && [...found].every(([id, text]) => values.get(id) === text);
    values = found;
    if (!isSame) draw();
  }, () => {}), now ? 0 : VALUES_MS);
}

// ------------------------------------------------------------ the note on the position, whatever line reached it
const WAIT_MS = 120; // a held arrow key asks once
const NO_NOTE = { text: "", revision: 0, studies: [] };

function noteOn(host) {
  const last = latest();
  let known = NO_NOTE;
  let place = null; // the position whose note the field holds
  let typed = false; // whether the field holds more than was saved
  let timer = 0;
  const area = h("textarea", { id: "note-text", rows: 3, "aria-label": "Note on this position", placeholder: "A note on this position, seen from every line that reaches it", oninput: () => { typed = true; }, onchange: save });
  const title = h("span", {});
  const more = h("p", { class: "note" });
  put(host, h("summary", {}, title), area, more);

  function draw() {
    if (!typed) area.value = known.text;
    area.readOnly = Boolean(closed);
    title.textContent = known.text ? `Note: ${known.text.split("\n")[0].slice(0, 120)}` : "Note on this position";
    host.classList.toggle("has", Boolean(known.text));
    put(more, closed ? `${closed} ` : null, known.studies.length > 0 && h("span", { text: "In studies: " }),
      known.studies.map((study) => h("button", { type: "button", class: "link", text: study.name, onclick: () => openStudy(study.id, { node: study.move }) })));
  }

  function take(found) {
    if (typed && found.text && found.text !== known.text) area.value = `${found.text}\n${area.value}`; // somebody else wrote, too
    known = found;
    draw();
  }

  async function save() {
    const [mine, text] = [place, area.value];
    try {
      const found = await send("note", { ...mine, text, revision: known.revision });
      tell("edited");
      if (mine === place) { typed = area.value !== text; take(found); }
    } catch (error) {
      toast(error.message);
      if (mine === place) load();
    }
  }

  function load() {
    const mine = place;
    last(ask("note", mine), (found) => { if (mine === place) take(found); }, (error) => toast(error.message));
  }

  return {
    show() {
      if (!state.look) return;
      if (document.activeElement === area) area.blur(); // what was typed is saved where it belongs
      [place, known, typed] = [here(), NO_NOTE, false];
      draw();
      clearTimeout(timer);
      timer = setTimeout(load, WAIT_MS);
    },
    news() { if (!typed && place) load(); },
    state: draw,
  };
}

// ------------------------------------------------------------ the page
export function notation() {
  let dialog = null;
  const studies = async (act) => {
    dialog ||= import("./studies.js").then((found) => found.studiesDialog({ open: openStudy, keep, renamed, savePgn, pane: () => pane, closed: () => closed }));
    (await dialog)[act]();
  };
  $("studies-open").addEventListener("click", () => studies("show"));
  $("keep").addEventListener("click", () => studies("keep"));
  $("close-study").addEventListener("click", close);
  for (const act of ["undo", "redo"]) $(act).addEventListener("click", () => turnBack(act));
  on("edited", () => noteChange());
  const note = noteOn($("note"));
  on("arrived", arrived);
  on("ahead", ahead);
  on("position", () => { draw(); note.show(); if (current !== null) tell("shapes", (current === START_NODE ? pane.comment : pane.tree.node(current).comment) || ""); });
  on("beat", () => askValues({ now: true }));
  on("file", () => { note.news(); look(); askValues(); });
  on("facts", async () => {
    ({ closed } = await ask("studies"));
    showState(); edit.show(); note.state();
  });
  on("address", (text) => {
    const [id, node] = text.split(".").map(Number);
    if (!id && pane.study) pane = draft(null);
    wanted = id && id !== pane.study ? { id, node: node || START_NODE } : null;
  });
  on("position", () => {
    if (!wanted) return;
    const { id, node } = wanted;
    wanted = null;
    openStudy(id, { node });
  });
  return { turn, turnBack, mistake, comment: () => edit.comment() };
}
