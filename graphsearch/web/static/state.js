// What the page shows: a line, a place on it, and what the file knows of the position there.

import { ask } from "./api.js";
import { fenFromPath, fenToPath, START } from "./chess.js";

const listeners = {};
export const on = (name, listen) => { (listeners[name] ||= []).push(listen); };
export const tell = (name, value) => (listeners[name] || []).forEach((listen) => listen(value));

export const state = {
  root: START,
  line: [],      // UCI moves
  at: 0,         // how many of them are played
  headers: null, // of the game that is loaded
  look: null,    // the answer to /api/position
  live: null,    // the same position in the memory of a search
  desk: { running: [], waiting: [], ended: [], held: false },
  outside: { stamp: "", holder: null },
  file: null,
};

export const played = () => state.line.slice(0, state.at);
export const here = () => ({ root: state.root, line: played().join(" ") });
export const wholeLine = () => ({ root: state.root, line: state.line.join(" ") });

// the node to show: what a running search has in memory is newer than the file
export const node = () => state.live || state.look?.node || null;

// ------------------------------------------------------------ moving
export function go(at) {
  const next = Math.max(0, Math.min(state.line.length, at));
  if (next === state.at) return;
  state.at = next;
  moved();
}

export function play(move) {
  if (state.line[state.at] !== move) {
    state.line = [...played(), move];
    state.headers = null;
  }
  state.at += 1;
  moved();
}

export function open({ root = START, line = [], at = line.length, headers = null }) {
  Object.assign(state, { root, line, at, headers });
  moved();
}

function moved() {
  const address = addressOf();
  if (address !== location.pathname + location.search) history.pushState(null, "", address);
  refresh({ moved: true });
}

export function addressOf() {
  const query = new URLSearchParams();
  if (state.line.length) query.set("line", state.line.join(" "));
  if (state.at !== state.line.length) query.set("at", state.at);
  const rest = query.toString().replaceAll("+", ",").replaceAll("%2C", ",");
  return `/p/${fenToPath(state.root)}${rest ? `?${rest}` : ""}`;
}

export function readAddress() {
  const fen = decodeURIComponent(location.pathname.replace(/^\/p\//, "").replace(/^\/$/, ""));
  const query = new URLSearchParams(location.search);
  const line = (query.get("line") || "").split(/[\s,]+/).filter(Boolean);
  state.root = fen ? fenFromPath(fen) : START;
  state.line = line;
  state.at = Math.max(0, Math.min(line.length, Number(query.get("at") ?? line.length) || 0));
}

// ------------------------------------------------------------ asking the file
const LINES = 5; // best moves that are shown with their line
let asking = null;

export async function refresh({ moved: isMove = false } = {}) {
  asking?.abort();
  asking = new AbortController();
  if (isMove) tell("moving");
  try {
    const look = await ask("position", here(), asking.signal);
    state.look = look;
    // addresses may have moves in SAN; from here on all are UCI
    state.line = [...look.line.map((step) => step.move), ...state.line.slice(state.at)];
    liveNode();
    tell(isMove ? "position" : "news", look);
    if (look.node?.moves.some((move) => move.n)) await addLines(look, asking.signal);
  } catch (error) {
    if (error.name !== "AbortError") tell("error", error);
  }
}

// lines take longer than all the rest, so they come later
async function addLines(look, signal) {
  const found = await ask("lines", { ...here(), lines: LINES }, signal);
  for (const { plies } of found.lines) {
    const move = look.node.moves.find((each) => each.move === plies[0]?.move);
    if (move) Object.assign(move, { pv: plies.map((ply) => ply.move), pv_san: plies.map((ply) => ply.san) });
  }
  tell("news", look);
}

export function liveNode() {
  const nodes = state.desk.running.flatMap((job) => job.facts.nodes || []);
  state.live = nodes.find((found) => found.key === state.look?.key) || null;
}
