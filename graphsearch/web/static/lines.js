// The answer in a sentence, and the best lines: each move can be played, and shows its position.

import { chip, count, forWhite, h, percent, put, score, short, steady } from "./dom.js";
import { after, menOf, said, turnOf } from "./chess.js";
import { addLine, askLines, node, on, open, played, recall, remember, state, tell } from "./state.js";

const MOST = 20;
const leave = () => tell("preview", null);

export function lines(answer, host) {
  const draw = () => {
    if (!state.look) return;
    put(answer, sentence());
    const rows = node()?.moves.slice(0, state.shown) || [];
    put(host, Array.from({ length: state.shown }, (_, k) => h("li", {}, rows[k] && rowOf(rows[k]))));
  };
  const show = steady(host, draw);
  for (const name of ["position", "news", "lines", "live"]) on(name, () => show(name));
  return { more: () => setShown(state.shown + 1, draw), fewer: () => setShown(state.shown - 1, draw) };
}

function setShown(wanted, draw) {
  state.shown = Math.max(1, Math.min(MOST, wanted));
  remember("lines", state.shown);
  draw();
  askLines();
}
state.shown = Math.max(1, Math.min(MOST, Number(recall("lines")) || state.shown));

function sentence() {
  const { look } = state;
  if (look.over) return `The game is over: ${look.over}.`;
  const found = node();
  const [best, next] = found?.moves.filter((move) => move.n || move.mate) || [];
  if (!best) return look.problem ? "" : h("span", { class: "muted", text: "No search has been here." });
  const worth = (move) => score(forWhite(move, look.position));
  const all = found.moves.reduce((sum, move) => sum + move.n, 0);
  return [h("b", { text: said(look.position, [best.san]) }), `: ${worth(best)}, ${percent(all ? best.n / all : 1, 0)} of ${count(all)} visits`, next ? `; then ${next.san}: ${worth(next)}.` : ".",
    found.apart ? " Searched apart." : ""];
}

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
