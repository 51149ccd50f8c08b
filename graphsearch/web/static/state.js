// What the page shows: a line, a place on it, and what the file knows of the position there.
//
// The page is where its last answer was: line, place and answer change together. While an answer is awaited,
// `asked` is where the page goes, and whatever has to do with the position that is shown waits or is dropped.

import { ask, send } from "./api.js";
import { START } from "./chess.js";

const listeners = {};
export const on = (name, listen) => { (listeners[name] ||= []).push(listen); };
export const tell = (name, value) => (listeners[name] || []).forEach((listen) => listen(value));

// what the browser keeps for the next time, unless its storage is off
export const recall = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
export const remember = (name, value) => { try { localStorage.setItem(name, value); } catch { /* storage is off */ } };

export const toast = (text) => tell("told", text);

const IDLE = { running: [], waiting: [], ended: [], held: false };

export const state = {
  root: START,
  line: [],      // UCI moves
  at: 0,         // how many of them are played
  game: null,    // the game that was opened: { root, line, headers }
  adds: false,   // whether the line goes into the notation, as a move that was played does
  tags: {},      // of the game or study in the notation
  study: "",     // the study that is open and the move in it, as the address has them
  look: null,    // the answer to /api/position
  problem: "",   // why the page could not go where it was to go
  live: null,    // the same position in the memory of a search
  view: "",      // the part of a view that is open; empty: the first
  shown: 3,      // lines that are shown
  lines: new Map(), // lines of its best moves, by move: { pv, pv_san }
  queue: IDLE,
  outside: { stamp: "", holder: null },
  file: null,
  fileKnown: null, // a promise: the file was asked for
};

// shows a move on the board while an element is pointed at
export const pointed = (move) => ({ onmouseenter: () => tell("hover", move), onmouseleave: () => tell("hover", null) });

export const played = () => state.line.slice(0, state.at);
export const here = () => ({ root: state.root, line: played().join(" ") });
export const wholeLine = () => ({ root: state.root, line: state.line.join(" ") });

// the node to show: what a running search has in memory is newer than the file
export const node = () => state.live || state.look?.node || null;

// ------------------------------------------------------------ moving
const target = () => asked || state;

export function go(at) {
  const { root, line, at: from, game, adds } = target();
  const next = Math.max(0, Math.min(line.length, at));
  if (next !== from) travel({ root, line, game, adds, at: next });
}

export const step = (plies) => go(target().at + plies);
export const toEnd = () => go(target().line.length);

// plays a move of the position that is shown; returns whether it does: on the way to another one it would be a move of that
export function play(move) {
  if (asked || !state.look) return false;
  const { root, line, at, game } = state;
  travel({ root, game, adds: true, at: at + 1, line: line[at] === move ? line : [...played(), move] }, { isMove: true });
  return true;
}

// acts at once, or, while the server is asked, as soon as its answer is there; `once`: not behind a move that is awaited.
// The last wish counts. A step to another position drops it.
export function whenKnown(act, { once = false } = {}) {
  if (!asked) act();
  else if (!once || !asked.isMove) {
    wish = act;
    hold.release();
  }
}

// with `headers` a game; otherwise the game stays that was opened, if this is a line of it
export function open({ root = START, line = [], at = line.length, headers, game = undefined, adds = false }) {
  const kept = state.game?.root === root ? state.game : null;
  const opened = headers ? { root, line, headers } : headers === null ? null : kept;
  travel({ root, line, at, adds, game: game || opened });
}

// where a row of the server leads: along the moves to its position, if they are known
export const placeOf = ({ way, position }) => (way ? { root: way.start || START, line: way.line } : { root: position });

function pathOf({ root, line, at, study = "", view = "" }) {
  const query = new URLSearchParams();
  if (line.length) query.set("line", line.join(" "));
  if (at !== line.length) query.set("at", at);
  if (study) query.set("study", study);
  if (view) query.set("view", view);
  const rest = query.toString().replaceAll("+", ",").replaceAll("%2C", ",");
  return `/p/${root.replaceAll(" ", "_")}${rest ? `?${rest}` : ""}`;
}

export const addressOf = () => pathOf(state);

// the address follows the view, without a step of its own in the browser's history
export function setView(name) {
  state.view = name;
  if (!asked && state.look) history.replaceState(null, "", addressOf());
}

// where the address of the page says; also when one goes back to it
export function follow() {
  let root = START;
  try { root = decodeURIComponent(location.pathname.replace(/^\/p\//, "").replace(/^\/$/, "")).replaceAll("_", " ") || START; } catch { /* no address of this page */ }
  const query = new URLSearchParams(location.search);
  const line = (query.get("line") || "").split(/[\s,]+/).filter(Boolean);
  const at = Math.max(0, Math.min(line.length, Number(query.get("at") ?? line.length) || 0));
  tell("address", query.get("study") || "");
  state.view = query.get("view") || "";
  tell("view", state.view);
  travel({ root, line, at, game: state.game?.root === root ? state.game : null }, { push: false });
}

// ------------------------------------------------------------ asking the file
let asked = null; // where the page goes, and what ends the question
let wish = null; // what is done when it is there
let news = null; // the last question after the same position

// after steps in quick succession, and after those of a held key: the board is drawn at once, the rest when it rests
const [REST_MS, HELD_MS] = [70, 250];
const UCI = /^[a-h][1-8][a-h][1-8][nbrq]?$/;
const hold = { isOn: false, release: () => {} };
let moved = 0;

// whether a key is held; when it is released, the page asks
export function holdKey(isOn) {
  hold.isOn = isOn;
  if (!isOn) hold.release();
}

async function travel(place, { push = true, problem = "", isMove = false } = {}) {
  asked?.question.abort();
  const mine = { ...place, isMove, question: new AbortController() };
  [asked, wish] = [mine, null];
  tell("moving");
  if (place.root === state.root && state.look && place.line.every((move) => UCI.test(move))) tell("ahead", place);
  const rest = hold.isOn ? HELD_MS : Date.now() - moved < REST_MS ? REST_MS : 0;
  moved = Date.now();
  if (rest) await new Promise((resolve) => { hold.release = resolve; setTimeout(resolve, rest); });
  if (asked !== mine) return;
  try {
    const { root, line, at } = place;
    const look = await ask("position", { root, line: line.slice(0, at).join(" "), rest: line.slice(at).join(" ") }, mine.question.signal);
    if (asked === mine) arrive(mine, place, look, push, problem);
  } catch (error) {
    if (asked === mine) stay(error);
  }
}

async function arrive(mine, place, look, push, problem) {
  news = null;
  if (look.key !== state.look?.key) state.lines = new Map();
  // addresses may have moves in SAN; from here on all are UCI
  Object.assign(state, { adds: false }, place, { look, problem, line: [...look.line, ...look.rest].map((each) => each.move) });
  tell("arrived", look);
  liveNode();
  addLines(look); // asked for before all else is drawn: the browser sends a request when the script pauses
  await new Promise((resolve) => setTimeout(resolve)); // what a hand does meanwhile waits: the page shows what was before
  if (asked !== mine) return;
  asked = null;
  if (push && addressOf() !== location.pathname + location.search) history.pushState(null, "", addressOf());
  if (problem) history.replaceState(null, "", addressOf());
  tell("position", state.look);
  const act = wish;
  wish = null;
  act?.();
}

// the page stays where it is; at its start that is the first position
function stay(error) {
  [asked, wish] = [null, null];
  state.problem = error.message;
  if (state.look) {
    history.replaceState(null, "", addressOf());
    tell("position", state.look);
  } else if (error.status) travel({ root: START, line: [], at: 0, game: null }, { push: false, problem: error.message });
  tell("problem");
  tell("error", error);
}

// what the file knows now of the position that is shown
export async function refresh() {
  if (asked || !state.look) return;
  const mine = (news = {});
  const isLate = () => asked || mine !== news;
  try {
    const look = await ask("position", { ...here(), rest: state.line.slice(state.at).join(" ") });
    if (isLate()) return;
    state.look = look;
    liveNode();
    tell("news", look);
    await addLines(look);
  } catch (error) {
    if (!isLate()) tell("error", error);
  }
}

// lines take longer than all the rest, so they come later
async function addLines(look) {
  if (node()?.moves.some((move) => move.n)) await setLines(look, ask("lines", { ...here(), lines: state.shown }), (lines) => lines.map(({ plies }) => plies));
}

async function setLines(look, question, linesOf) {
  try {
    const found = await question;
    if (state.look !== look) return;
    for (const plies of linesOf(found.lines)) state.lines.set(plies[0]?.move, { pv: plies.map((ply) => ply.move), pv_san: plies.map((ply) => ply.san) });
    tell("lines");
  } catch (error) {
    if (state.look === look && error.status !== 404) tell("error", error); // nothing has searched here, or a search is too busy to say
  }
}

// the lines of the position that is shown, when more are wanted
export const askLines = () => { if (state.look && !asked) addLines(state.look); };

// the line of a move that is not among the best
export function addLine(move) {
  const step = state.look.legal.find((each) => each.move === move);
  setLines(state.look, ask("lines", { root: state.root, line: [...played(), move].join(" "), lines: 1 }), ([line]) => [[step, ...(line?.plies || [])]]);
}

function liveNode() {
  const nodes = state.queue.running.map((job) => job.facts.node);
  state.live = nodes.find((found) => found && found.key === state.look?.key) || null;
}

// the tasks of the server; none are known while it does not answer
export function showQueue(queue) {
  const was = state.live;
  state.queue = queue || IDLE;
  liveNode();
  tell("queue");
  if (was || state.live) tell("live");
  if (was && !state.live && queue) refresh(); // what the search found since the last answer
  if (state.queue.running.some((job) => job.facts.counters && !job.stopping)) beat();
}

const BEAT_MS = 700;
let beaten = 0;

// while a search runs: what its news do not bring, the brief and the lines, comes from its memory too, more than once a second
async function beat() {
  if (asked || !state.look || Date.now() - beaten < BEAT_MS) return;
  beaten = Infinity; // until all is answered: a slow machine is not asked anew meanwhile
  tell("beat");
  await refresh();
  beaten = Date.now();
}

// ------------------------------------------------------------ the game
// how many moves of the game the line has; null if it is the game, or there is none
export function leftGameAt() {
  const { game, line } = state;
  if (!game) return null;
  const plies = game.line.findIndex((move, k) => move !== line[k]);
  return plies < 0 && line.length === game.line.length ? null : plies < 0 ? game.line.length : plies;
}

// the line as PGN, with the tags of its game or study
export async function pgnOfLine() {
  const { root, line, game, tags } = state;
  const headers = { ...tags, ...(game && leftGameAt() === null ? {} : { Result: "*" }) };
  const { pgn } = await send("tree-pgn", { root, moves: line.map((move, k) => ({ id: k + 1, parent: k, move })), headers });
  return pgn;
}
