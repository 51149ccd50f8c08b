// The search that goes where the board goes, and the moves that searches may take.

import { send } from "./api.js";
import { h, showMenu } from "./dom.js";
import { rowItems } from "./repertoire_row.js";
import { here, on, state, tell, toast, whenKnown } from "./state.js";

const REST_MS = 120; // for which the board rests before the search comes

const limits = new Map(); // sets of moves that searches leave out, by FEN
let settings = () => ({});
let timer = 0;
let goesThere = false; // whether the search goes to the position that is awaited

const job = () => state.queue.running.find((one) => one.kind === "follow") || state.queue.waiting.find((one) => one.kind === "follow");
const isFollowing = () => Boolean(job() && !job().stopping);

// ------------------------------------------------------------ moves that are searched
const leftOut = () => limits.get(state.look?.position) || new Set();
export const isLeftOut = (move) => leftOut().has(move);
const taken = () => state.look.legal.map((each) => each.move).filter((move) => !isLeftOut(move));

// the moves of the position that a search may take, as words; empty: all
export const searchedMoves = () => (leftOut().size ? taken().join(" ") : "");

function leaveOut(moves) {
  if (moves.length === state.look.legal.length) { toast("One move at least must be searched."); return; }
  if (moves.length) limits.set(state.look.position, new Set(moves)); else limits.delete(state.look.position);
  tell("news", state.look);
  if (state.queue.running.some((one) => one.kind === "follow" || (one.kind === "search" && !one.waits))) follow();
}

// a row above the moves
export function limitNote(sanOf) {
  const [out, others] = [[...leftOut()], taken()];
  const names = (moves) => moves.map(sanOf).join(", ");
  return out.length > 0 && h("div", { class: "limit" }, others.length <= out.length ? `The search takes only ${names(others)}. ` : `The search leaves out ${names(out)}. `, h("button", { type: "button", class: "link", "data-focus": "all moves", text: "Take all moves", onclick: () => leaveOut([]) }));
}

// ------------------------------------------------------------ the search

// where the search goes from now on
function follow() {
  clearTimeout(timer);
  if (!state.look) { whenKnown(follow); return; } // a page that has just been opened
  if (state.look.over) return;
  const { evaluator, threads, ram, params } = settings();
  send("follow", { ...here(), searchmoves: searchedMoves(), evaluator, threads, ram, params });
}

function followNot() {
  clearTimeout(timer);
  if (job()) send("queue", { action: "stop", number: job().number, hold: true });
}

export function followSwitch(given) {
  settings = given;
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

export const toggleFollow = () => { if (isFollowing()) followNot(); else follow(); };

// ------------------------------------------------------------ what a row of the moves offers
export function movesMenu(host, play) {
  return (button, move, san) => {
    const others = [...leftOut()].filter((each) => each !== move);
    showMenu(host, button, [
      [`Search here: after ${san}`, () => { goesThere = play(move); }],
      [isLeftOut(move) ? "Take this move again" : "Exclude this move", () => leaveOut(isLeftOut(move) ? others : [...others, move])],
      ["Only this move", () => leaveOut(state.look.legal.map((each) => each.move).filter((each) => each !== move))],
      ...rowItems(move),
    ]);
  };
}
