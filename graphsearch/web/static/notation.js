// The notation: the game with its variations, as a draft of the page or as a study of the file.
//
// Moves that are played go into it; a line that is only looked at does not, unless a hand says so.

import { ask, latest, send, upload } from "./api.js";
import { said } from "./chess.js";
import { asked, count, download, h, points, put, score, showMenu, table, when } from "./dom.js";
import { lineItems } from "./moves.js";
import { addressOf, here, on, open, played, refresh, state, tell, toast } from "./state.js";

// ------------------------------------------------------------ the moves of a game with its variations
// a change returns what it did, { put, drop }, to be made in another tree.

const START_NODE = 0; // the number of the first position

// moves: each after its parent, those of one parent in their order
class Tree {
  constructor(moves = []) {
    this.nodes = new Map([[START_NODE, { id: START_NODE, parent: null, kids: [] }]]);
    this.last = START_NODE;
    for (const move of moves) this.#hang({ ...move, kids: [] });
  }

  #hang(node) {
    this.nodes.set(node.id, node);
    this.nodes.get(node.parent).kids.push(node.id);
    this.last = Math.max(this.last, node.id);
  }

  // the same moves, which later changes of this tree leave alone
  copy() {
    const found = new Tree();
    Object.assign(found, { nodes: structuredClone(this.nodes), last: this.last });
    return found;
  }

  get size() { return this.nodes.size - 1; }
  node(id) { return this.nodes.get(id); }
  kids(id) { return this.nodes.get(id).kids.map((kid) => this.nodes.get(kid)); }

  // the moves that lead to a node
  path(id) {
    const found = [];
    for (let node = this.node(id); node.parent !== null; node = this.node(node.parent)) found.push(node);
    return found.reverse();
  }

  // the first moves from a node on
  rest(id) {
    const found = [];
    for (let [kid] = this.kids(id); kid; [kid] = this.kids(kid.id)) found.push(kid);
    return found;
  }

  // how far a line (UCI) is in the tree: the node there, and the moves up to it
  find(line) {
    let [at, plies] = [START_NODE, 0];
    for (const move of line) {
      const kid = this.kids(at).find((each) => each.move === move);
      if (!kid) break;
      [at, plies] = [kid.id, plies + 1];
    }
    return { id: at, plies };
  }

  // all nodes, each after its parent, a line before its variations
  * walk(from = START_NODE) {
    const waiting = [...this.kids(from)].reverse();
    while (waiting.length) {
      const node = waiting.pop();
      yield node;
      waiting.push(...this.kids(node.id).reverse());
    }
  }

  get isPlain() { return [...this.nodes.values()].every((node) => node.kids.length < 2 && !node.comment && !node.before && !node.nags?.length); }

  // the number of a node in the order of `walk`, as the server has it
  number(id) { return 1 + [...this.walk()].findIndex((node) => node.id === id); }

  // ---------------------------------------------------------- changes
  #done(node, values) { return { put: [{ path: this.path(node.id).map((each) => each.move), san: node.san, ...values }] }; }

  add(parent, move, san) {
    const node = { id: this.last + 1, parent, move, san, before: "", comment: "", nags: [], kids: [] };
    this.#hang(node);
    return { node, change: this.#done(node) };
  }

  // to the place before, or behind, among its variations
  shift(id, by) {
    const place = this.node(this.node(id).parent).kids.indexOf(id) + by;
    return this.#place(id, place) ? this.#done(this.node(id), { place }) : null;
  }

  #place(id, place) {
    const { kids } = this.node(this.node(id).parent);
    if (place < 0 || place >= kids.length) return false;
    kids.splice(kids.indexOf(id), 1);
    kids.splice(place, 0, id);
    return true;
  }

  // the move where the variation of a node begins; null on the main line
  branch(id) {
    for (const node of this.path(id).reverse()) if (this.node(node.parent).kids[0] !== node.id) return node.id;
    return null;
  }

  // how many moves go with this one
  below(id) { return [...this.walk(id)].length; }

  remove(id) {
    const drop = [this.path(id).map((node) => node.move)];
    const kids = this.node(this.node(id).parent).kids;
    kids.splice(kids.indexOf(id), 1);
    for (const node of [this.node(id), ...this.walk(id)]) this.nodes.delete(node.id);
    return { drop };
  }

  set(id, values) {
    Object.assign(this.node(id), values);
    return this.#done(this.node(id), values);
  }

  // makes a change that was made in another tree, as far as its moves are here
  repeat({ put = [], drop = [] }) {
    for (const { path, san, place, ...values } of put) {
      const { id, plies } = this.find(path);
      if (plies < path.length - 1) continue; // it was deleted here
      const node = plies === path.length ? this.node(id) : this.add(id, path.at(-1), san).node;
      if (place !== undefined) this.#place(node.id, place);
      for (const [name, value] of Object.entries(values)) if (value.length) node[name] = value;
    }
    for (const path of drop) {
      const { id, plies } = this.find(path);
      if (plies === path.length) this.remove(id);
    }
  }

  get rows() { return [...this.walk()].map(({ id, parent, move, before, comment, nags }) => ({ id, parent, move, before, comment, nags })); }
}

// ------------------------------------------------------------ what is shown
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
const late = new Set(); // studies with changes to which the server has not answered
let closed = ""; // why the file takes no changes
const done = []; // what this page changed last, for undo: a draft and what it was, or {} for the file
const undone = [];
let wanted = null; // the move of a study that an address names
const isClosed = () => (pane.study ? closed : "");
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
  state.tags = pane.headers;
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
  mine.unsaved.push({ ...made, game: gameOf(mine) });
  queueWrite(mine);
}

function queueWrite(mine) {
  waits += 1;
  saving = saving.then(() => write(mine)).finally(() => { waits -= 1; showState(); });
}

const MOST_TRIES = 5; // while others write the same study
const FORBIDDEN = 403; // for a page whose server was started again, until somebody enters the password
const isUnheard = (error) => !error.status || error.status === FORBIDDEN;

async function write(mine) {
  late.delete(mine);
  if (mine.stale) { toast("This change is not saved: open the study again."); return; }
  try {
    for (let tries = 1; mine.unsaved.length;) {
      const sent = await send("study-change", { id: mine.study, revision: mine.revision, game: mine.unsaved[0].game })
        .catch((error) => { if (error.status === 409 && tries < MOST_TRIES) return null; throw error; });
      if (!sent) { tries += 1; await repeat(mine); continue; }
      Object.assign(mine, { revision: sent.revision, name: sent.name });
      mine.unsaved.shift();
      tries = 1;
    }
  } catch (error) {
    toast(error.message);
    if (isUnheard(error)) { late.add(mine); return; } // written with the next change, or when the server answers
    mine.stale = true; // what follows was made on top of what is not saved
    if (pane === mine) await openStudy(mine.study, { node: null });
  }
}

// what another window has written, with what is not saved yet made once more on top of it; the board stays where it is
async function repeat(mine) {
  const study = await ask("study", { id: mine.study });
  if (study.revision <= mine.revision) return; // written meanwhile
  const { revision, name, headers, comment } = study;
  Object.assign(mine, { tree: new Tree(study.moves), revision, name, headers, comment });
  for (const made of mine.unsaved) {
    mine.tree.repeat(made);
    if (made.says) mine.comment = made.comment;
    made.game = gameOf(mine);
  }
  if (pane !== mine) return;
  values = new Map(); // their numbers are of the tree before
  locate();
  draw();
  history.replaceState(null, "", addressOf());
  toast(`The study ${study.name} was changed elsewhere; it is shown as it is now${mine.unsaved.length ? ", with your changes" : ""}.`);
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

const gameOf = ({ tree, root, comment, headers }) => ({ root, moves: tree.rows, comment, headers });

// node: the number of the move to go to; null: the one on the board
function show(study, node) {
  pane = { tree: new Tree(study.moves), root: study.fen, comment: study.comment, headers: study.headers, study: study.id, revision: study.revision, name: study.name, game: null, unsaved: [], lost: study.left_out.length };
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
  const mine = pane;
  if (!mine.study || waits) return;
  const { studies } = await ask("studies");
  const found = studies.find((each) => each.id === mine.study);
  if (pane !== mine || waits || found?.revision === mine.revision) return;
  if (found) { await repeat(mine); return; }
  toast(`The study ${mine.name} was deleted; what is shown is a draft now.`);
  settled(Object.assign(mine, { study: 0, revision: 0 }));
  late.delete(mine);
  locate();
  draw();
}

// ------------------------------------------------------------ drawing
function draw() {
  drawTree();
  if (!buttons.size && !pane.comment) put($("line"), h("li", { class: "note", text: "Play a move, or open a game or a study." }));
  requestAnimationFrame(reveal); // measured amid the drawing, the page would be laid out twice
  showState();
  showEdit();
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
  const parts = pane.study ? [closed ? "read-only" : pane.stale || late.has(pane) ? "not saved" : waits ? "saving…" : "saved"] : [];
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

// ------------------------------------------------------------ the tree: a row for each stretch of a line, variations set in; flat, however deep they are
const MOST_SHOWN = 4000; // moves; of larger trees, variations beside the board's line are folded
const FOLDED_ABOVE = 1500;
const DEEPEST = 6; // steps to the right

const GLYPHS = {
  1: "!", 2: "?", 3: "!!", 4: "??", 5: "!?", 6: "?!", 7: "□", 10: "=", 13: "∞", 14: "+=", 15: "=+", 16: "±", 17: "∓", 18: "+−", 19: "−+",
  22: "⊙", 23: "⊙", 32: "↻", 33: "↻", 36: "→", 37: "→", 40: "⇒", 41: "⇒", 132: "⇆", 133: "⇆", 140: "∆", 146: "N",
};
const MOVE_GLYPHS = [1, 2, 3, 4, 5, 6];
const MISTAKES = [2, 4, 6]; // ? ?? ?!
const VALUE_GLYPHS = [10, 13, 14, 15, 16, 17, 18, 19];
const glyph = (nag) => GLYPHS[nag] || `$${nag}`;

// stretches of lines, in the order of a PGN: { depth, moves, ply, resumed, folded }; `ply` of the first move, `resumed` behind variations
function* stretches(tree, start, isOpen) {
  const waiting = [{ from: START_NODE, depth: 0, moves: [], ply: start }];
  while (waiting.length) {
    const { from, depth, moves, ply, resumed } = waiting.pop();
    if (moves.length && !isOpen(moves[0])) { yield { depth, moves, ply, resumed, folded: true }; continue; }
    let at = from;
    for (let kids = tree.kids(at); kids.length; kids = tree.kids(at)) {
      const [main, ...others] = kids;
      moves.push(main);
      at = main.id;
      if (!others.length) continue;
      waiting.push({ from: at, depth, moves: [], ply: ply + moves.length, resumed: true });
      for (const other of others.reverse()) waiting.push({ from: other.id, depth: depth + 1, moves: [other], ply: ply + moves.length - 1 });
      at = null;
      break;
    }
    if (moves.length) yield { depth, moves, ply, resumed, folded: false };
  }
}

function drawTree() {
  const { tree, comment } = pane;
  buttons = new Map();
  const path = new Set(tree.path(current ?? START_NODE).map((node) => node.id));
  const folds = tree.size > FOLDED_ABOVE;
  const isOpen = (first) => !folds || path.has(first.id) || tree.node(first.parent).kids[0] === first.id;
  const [, side, , , , number] = (pane.root || state.root).split(" ");
  const start = 2 * (Number(number) - 1) + (side === "b" ? 1 : 0); // 0 at the first white move of a game
  const rows = comment ? [h("li", { class: "stretch d0" }, remark(comment))] : [];
  let shown = 0;
  for (const { depth, moves, ply, resumed, folded } of stretches(tree, start, isOpen)) {
    if (shown > MOST_SHOWN) { rows.push(h("li", { class: "note", text: "More moves follow; go there on the board to see them." })); break; }
    const some = moves.slice(0, MOST_SHOWN);
    shown += some.length;
    const parts = some.flatMap((node, k) => moveParts(node, ply + k, k === 0 || Boolean(some[k - 1].comment)));
    rows.push(h("li", { class: `stretch d${Math.min(depth, DEEPEST)}` }, depth > 0 && !resumed && h("span", { class: "muted", text: "(" }), parts, folded && h("span", { class: "muted", text: "…" }), depth > 0 && !tree.kids(moves.at(-1).id).length && h("span", { class: "muted", text: ")" })));
  }
  $("line").replaceChildren(...rows);
}

function moveParts(node, ply, first) {
  const number = ply % 2 ? (first || node.before ? `${Math.floor(ply / 2) + 1}…` : "") : `${Math.floor(ply / 2) + 1}.`;
  const [evaluation, left] = ["eval", "clk"].map((name) => node.comment?.match(`\\[%${name}\\s+([^\\],\\s]+)`)?.[1]);
  const value = values.get(node.id) || evaluation;
  const button = h("button", { type: "button", text: node.san, "data-node": node.id, "aria-current": node.id === current ? "step" : null, onclick: () => goTo(node.id) });
  buttons.set(node.id, button);
  return [
    node.before && remark(node.before),
    h("span", { class: "move-box" }, number && h("span", { class: "number", text: number }), button,
      node.nags.length > 0 && h("span", { class: "nag", text: node.nags.map(glyph).join(" ") }), value && h("span", { class: "worth", title: values.get(node.id) ? "Value in the graph, White's view" : "Value of the game's comment", text: value }), left && h("span", { class: "worth", title: "Time left", text: `⏱${left}` })),
    node.comment && remark(node.comment),
  ];
}

// a comment, without the commands of other programs, such as [%clk 0:01:02]
function remark(text) {
  const words = text.replace(/\[%[^\]]*\]\s*/g, "").trim();
  return words && h("span", { class: "said", text: words });
}

// ------------------------------------------------------------ what is done with the move on the board
let writes = false; // whether the comment is being written
let shown = {}; // the node, its tree (a study that is opened again has another), and all else that is drawn

const setNags = (node, nags) => change(pane.tree.set(node.id, { nags: [...nags].sort((a, b) => a - b) }));

function glyphs(node) {
  const has = new Set(node.nags);
  const without = (some) => node.nags.filter((nag) => !some.includes(nag));
  const marks = MOVE_GLYPHS.map((nag) => h("button", {
    type: "button", class: "glyph", "aria-pressed": String(has.has(nag)), text: glyph(nag), "aria-label": `Glyph ${glyph(nag)}`,
    onclick: () => setNags(node, has.has(nag) ? without([nag]) : [...without(MOVE_GLYPHS), nag]),
  }));
  const chosen = VALUE_GLYPHS.find((nag) => has.has(nag)) || "";
  const value = h("select", { id: "glyph-value", "aria-label": "Judgement of the position", onchange: (event) => setNags(node, [...without(VALUE_GLYPHS), ...(event.target.value ? [Number(event.target.value)] : [])]) },
    h("option", { value: "", text: "judge" }), VALUE_GLYPHS.map((nag) => h("option", { value: nag, selected: nag === chosen, text: glyph(nag) })));
  return [h("span", { class: "glyphs" }, marks), value];
}

const tool = (id, text, title, onclick, off = false) => h("button", { type: "button", id, text, title, disabled: off, onclick });

function moveTools(node) {
  const { tree, root } = pane;
  const branch = tree.branch(node.id);
  const kids = branch === null ? [] : tree.node(tree.node(branch).parent).kids;
  // the nearest move up the line that has a variation behind it
  const leading = tree.path(node.id).findLast((each) => tree.node(each.parent).kids.at(-1) !== each.id);
  const line = () => navigator.clipboard?.writeText(lineOf(node)).catch(() => {});
  return [
    tool("promote", "Promote", "Move the variation up; at the top it is the main line", () => change(tree.shift(branch, -1)), branch === null),
    tool("demote", "Demote", "Move this move's line down among its variations", () => change(tree.shift(leading.id, 1)), !leading),
    tool("delete-move", "Delete", "Delete this move and all behind it", () => remove(node)),
    kids.length > 0 && tool("delete-line", "Delete variation", "Delete the whole variation", () => remove(tree.node(branch))),
    tool("to-repertoire", "To repertoire…", "Add the moves up to here to a repertoire", (event) => showMenu($("line-menu"), event.currentTarget, lineItems(root, tree.path(node.id).map((each) => each.move)))),
    tool("copy-line", "Copy line", "Copy the moves up to here and on", line),
  ];
}

async function remove(node) {
  const { tree } = pane;
  const below = tree.below(node.id);
  if (below && !await asked(`Delete ${node.san} and the ${points(below, "move")} behind it?`, "Delete")) return;
  if (pane.tree === tree && tree.node(node.id)) change(tree.remove(node.id), { to: node.parent });
}

function lineOf(node) {
  const { tree, root } = pane;
  return said(root, [...tree.path(node.id), ...tree.rest(node.id)].map((each) => each.san));
}

function words(node) {
  const { tree } = pane;
  const isStart = node.id === START_NODE;
  const begins = !isStart && tree.node(node.parent).kids[0] !== node.id;
  const area = (id, label, text, write) => h("div", {}, h("label", { for: id, text: label }),
    h("textarea", { id, rows: 3, value: text, onchange: (event) => write(event.target.value.trim()), onkeydown: (event) => { if (event.key === "Escape") { event.target.blur(); toggleComment(); } } }));
  return h("div", { class: "words" },
    begins && area("comment-before", "Comment before the variation", node.before, (text) => change(tree.set(node.id, { before: text }))),
    isStart ? area("comment", "Comment before the first move", pane.comment, (text) => { pane.comment = text; change({ comment: text, says: true }); })
      : area("comment", `Comment on ${node.san}`, node.comment, (text) => change(tree.set(node.id, { comment: text }))));
}

function toggleComment() {
  writes = !writes;
  showEdit();
  if (writes) $("comment")?.focus();
}

function showEdit() {
  const node = current === null ? null : pane.tree.node(current);
  const host = $("edit");
  host.hidden = !node || Boolean(isClosed());
  if (host.hidden) { shown = {}; return; }
  const typed = document.activeElement?.closest("#edit textarea");
  const { tree } = pane;
  if (typed && shown.tree === tree && shown.id === node.id) return; // what is being written stays
  const isStart = node.id === START_NODE;
  const all = JSON.stringify([pane.study, node, writes, tree.size, tree.branch(node.id), isStart || tree.node(node.parent).kids, pane.comment]);
  if (shown.all === all) return;
  shown = { tree, id: node.id, all };
  const focus = document.activeElement?.closest("#edit") ? document.activeElement.id : "";
  put(host, h("div", { class: "row" },
    h("button", { type: "button", id: "write", "aria-expanded": String(writes), text: "Comment", title: "Write a comment (w)", onclick: toggleComment }), !isStart && glyphs(node), !isStart && moveTools(node)),
  writes && words(node));
  if (focus) $(focus)?.focus({ preventScroll: true });
}

// ------------------------------------------------------------ the note on the position, whatever line reached it
const NO_NOTE = { text: "", revision: 0, studies: [] };

function noteOn(host) {
  let known = NO_NOTE;
  let place = null; // the position whose note the field holds
  let typed = false; // whether the field holds more than was saved
  let failed = false; // whether the server has not answered to it
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
    failed = false;
    try {
      const found = await send("note", { ...mine, text, revision: known.revision });
      tell("edited");
      if (mine === place) { typed = area.value !== text; take(found); }
    } catch (error) {
      failed = isUnheard(error);
      toast(error.message);
      if (!failed) refresh();
    }
  }

  on("position", () => {
    if (document.activeElement === area) area.blur(); // what was typed is saved where it belongs
    [place, known, typed, failed] = [here(), state.look.note || NO_NOTE, false, false];
    draw();
  });
  on("news", () => {
    take(state.look.note || NO_NOTE);
    if (failed) save();
  });
  return draw;
}

// ------------------------------------------------------------ the list of studies: open, new, rename, delete, PGN in and out
function studiesDialog() {
  const dialog = $("studies");
  const list = h("div", { id: "study-list" });
  const told = h("ul", { class: "plain", id: "left-out" });
  const name = h("input", { id: "study-name", size: 24, spellcheck: "false" });
  const file = h("input", { type: "file", id: "study-file", accept: ".pgn,.gz,.zst", class: "hidden", onchange: take });
  const tools = h("div", {});

  const create = async (event) => {
    event.preventDefault();
    await keep(name.value.trim());
    name.value = "";
    dialog.close();
  };

  async function take() {
    const [one] = file.files;
    if (!one) return;
    const found = await upload("study-import", {}, one);
    file.value = "";
    put(told, found.left_out.slice(0, 200).map((reason) => h("li", { text: reason })), found.found > 200 && h("li", { text: `and ${count(found.found - 200)} more` }));
    tell("edited");
    if (found.studies.length === 1) await openStudy(found.studies[0].id);
    if (found.studies.length === 1 && !found.found) dialog.close();
    else await load();
  }

  const row = (study) => [
    h("button", { type: "button", class: "link", text: study.name, "aria-current": study.id === pane.study ? "true" : null, onclick: async () => { await openStudy(study.id); dialog.close(); } }),
    study.moves, when(study.changed),
    h("span", { class: "row" }, h("a", { class: "button", href: `/api/study-pgn?id=${study.id}`, text: "PGN", "aria-label": `PGN of ${study.name}` }),
      !closed && h("button", { type: "button", text: "Rename", "aria-label": `Rename ${study.name}`, onclick: () => rename(study) }),
      !closed && h("button", { type: "button", text: "Delete", "aria-label": `Delete ${study.name}`, onclick: () => remove(study) })),
  ];

  async function remove(study) {
    if (!await asked(`Delete ${study.name}?`, "Delete")) return;
    await send("study-delete", { id: study.id, revision: study.revision });
    tell("edited");
    toast(`The study ${study.name} is deleted; Ctrl-Z brings it back.`);
    await load();
  }

  async function rename(study) {
    const given = await asked(`The new name of ${study.name}`, "Rename", study.name);
    if (given === null) return;
    renamed(await send("study-change", { id: study.id, revision: study.revision, name: given }));
    await load();
  }

  async function load() {
    const { studies } = await ask("studies");
    put(list, table(["Study", "Moves", "Changed", "Actions"], studies.map(row), { caption: "Studies of this file", empty: "There are no studies yet." }));
    put(tools, closed ? h("p", { class: "note", text: closed }) : h("div", { class: "row" },
      h("form", { class: "inline", onsubmit: create }, h("label", { for: "study-name", text: "Keep what is on the board as" }), name, h("button", { class: "primary", text: "New study" })),
      h("label", { class: "button", text: "PGN in… " }, file)),
    h("p", { class: "row" }, h("a", { class: "button", href: "/api/study-pgn", text: "All studies as PGN", hidden: !studies.length }), h("button", { type: "button", id: "tree-pgn", text: "What is shown as PGN", onclick: savePgn })));
  }

  const show = async () => {
    put(told);
    put(list); // rows of before have old revisions
    await load();
    if (!dialog.open) dialog.showModal();
  };

  put(dialog, h("div", { class: "row" }, h("h2", { id: "studies-title", text: "Studies" }), h("span", { class: "grow" }), h("button", { type: "button", text: "Close", onclick: () => dialog.close() })),
    tools, told, list);

  $("studies-open").addEventListener("click", show);
  $("keep").addEventListener("click", async () => { await show(); name.value ||= nameOf(state.game); name.select(); });
}

const nameOf = (game) => {
  const { White: white = "", Black: black = "", Event: event = "" } = game?.headers || {};
  const players = [white, black].filter((each) => each && each !== "?").join(" – ");
  return players || (event !== "?" ? event : "");
};

// ------------------------------------------------------------ the page
export function notation() {
  studiesDialog();
  $("close-study").addEventListener("click", close);
  for (const act of ["undo", "redo"]) $(act).addEventListener("click", () => turnBack(act));
  on("edited", () => noteChange());
  const drawNote = noteOn($("note"));
  on("arrived", arrived);
  on("ahead", ahead);
  on("position", () => {
    draw();
    if (current !== null) tell("shapes", (current === START_NODE ? pane.comment : pane.tree.node(current).comment) || "");
    if (wanted) openStudy(wanted.id, { node: wanted.node });
    wanted = null;
  });
  window.addEventListener("beforeunload", (event) => { if (late.size) event.preventDefault(); }); // the browser asks first
  on("beat", () => askValues({ now: true }));
  on("file", () => { look(); askValues(); });
  on("facts", async () => {
    for (const mine of late) queueWrite(mine);
    ({ closed } = await ask("studies"));
    showState(); showEdit(); drawNote();
  });
  on("address", (text) => {
    const [id, node] = text.split(".").map(Number);
    if (!id && pane.study) pane = draft(null);
    wanted = id && id !== pane.study ? { id, node: node || START_NODE } : null;
  });
  return { turn, turnBack, mistake, comment: () => { if (!writes) toggleComment(); else $("comment")?.focus(); } };
}
