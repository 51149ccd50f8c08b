// A small board beside the pointer that plays a line.

import { Board } from "./board.js";
import { after, menOf } from "./chess.js";
import { h } from "./dom.js";

const STEP_MS = 700;
const $ = (id) => document.getElementById(id);
let board = null;
const OWNERS = ".pv, .fen, .node, .move"; // what shows a line while the pointer is on it
let timer = 0;

// what was pointed at may be drawn anew, and then never tells that it was left
document.addEventListener("pointermove", (event) => { if (!$("peek").hidden && !event.target.closest?.(OWNERS)) hide(); });

// plays the moves one by one; `still`: shows the position behind the last one
export function peek(anchor, fen, moves, sans, { still = false } = {}) {
  hide();
  board ||= new Board($("peek-board"), { coordinates: false, label: "The line" });
  board.flip(document.getElementById("gauge").classList.contains("flipped"));
  let men = menOf(fen);
  let k = 0;
  const show = (last) => {
    board.show({ men, last });
    $("peek-line").textContent = sans.slice(Math.max(0, k - 4), k + 4).map((san, j) => (Math.max(0, k - 4) + j === k - 1 ? `[${san}]` : san)).join(" ");
  };
  const step = () => {
    if (k === moves.length) { clearInterval(timer); return; }
    men = after(men, moves[k]);
    k += 1;
    show(moves[k - 1]);
  };
  if (!still) show(null);
  do step(); while (still && k < moves.length);
  place(anchor);
  if (!still && moves.length > 1) timer = setInterval(step, STEP_MS);
}

// a link to a position, which shows it before one goes there
export function fenLink(fen, go) {
  const link = h("button", { type: "button", class: "link fen", text: fen, onclick: () => { hide(); go(fen); } });
  for (const name of ["mouseenter", "focus"]) link.addEventListener(name, () => peek(link, fen, [], []));
  for (const name of ["mouseleave", "blur"]) link.addEventListener(name, hide);
  return link;
}

function place(anchor) {
  const box = anchor.getBoundingClientRect();
  const card = $("peek");
  card.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = card;
  const left = Math.min(window.innerWidth - width - 8, Math.max(8, box.right - width));
  const below = box.bottom + 6 + height < window.innerHeight;
  card.style.left = `${left}px`;
  card.style.top = `${below ? box.bottom + 6 : Math.max(8, box.top - height - 6)}px`;
}

export function hide() {
  clearInterval(timer);
  $("peek").hidden = true;
}
