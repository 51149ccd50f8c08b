// How a tree is shown: rows of moves, a row for each stretch of a line, variations set in; flat, however deep they are.

import { h } from "./dom.js";
import { START_NODE } from "./tree.js";

const MOST_SHOWN = 4000; // moves; of larger trees, variations beside the board's line are folded
const FOLDED_ABOVE = 1500;
const DEEPEST = 6; // steps to the right

const GLYPHS = {
  1: "!", 2: "?", 3: "!!", 4: "??", 5: "!?", 6: "?!", 7: "□", 10: "=", 13: "∞", 14: "+=", 15: "=+", 16: "±", 17: "∓", 18: "+−", 19: "−+",
  22: "⊙", 23: "⊙", 32: "↻", 33: "↻", 36: "→", 37: "→", 40: "⇒", 41: "⇒", 132: "⇆", 133: "⇆", 140: "∆", 146: "N",
};
export const MOVE_GLYPHS = [1, 2, 3, 4, 5, 6];
export const MISTAKES = [2, 4, 6]; // ? ?? ?!
export const VALUE_GLYPHS = [10, 13, 14, 15, 16, 17, 18, 19];
export const glyph = (nag) => GLYPHS[nag] || `$${nag}`;

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

// the list of rows; `onGo(id)` for a click; returns the buttons by node
export function drawTree(host, { tree, root, comment, current, values }, onGo) {
  const buttons = new Map();
  const path = new Set(tree.path(current ?? START_NODE).map((node) => node.id));
  const folds = tree.size > FOLDED_ABOVE;
  const isOpen = (first) => !folds || path.has(first.id) || tree.node(first.parent).kids[0] === first.id;
  const [, turn, , , , number] = root.split(" ");
  const start = 2 * (Number(number) - 1) + (turn === "b" ? 1 : 0); // 0 at the first white move of a game
  const rows = comment ? [h("li", { class: "stretch d0" }, said(comment))] : [];
  let shown = 0;
  for (const { depth, moves, ply, resumed, folded } of stretches(tree, start, isOpen)) {
    if (shown > MOST_SHOWN) { rows.push(h("li", { class: "note", text: "More moves follow; go there on the board to see them." })); break; }
    const some = moves.slice(0, MOST_SHOWN);
    shown += some.length;
    const parts = some.flatMap((node, k) => moveParts(node, ply + k, { first: k === 0 || Boolean(some[k - 1].comment), current, values, buttons, onGo }));
    rows.push(h("li", { class: `stretch d${Math.min(depth, DEEPEST)}` }, depth > 0 && !resumed && h("span", { class: "muted", text: "(" }), parts, folded && h("span", { class: "muted", text: "…" }), depth > 0 && endsHere(tree, moves) && h("span", { class: "muted", text: ")" })));
  }
  host.replaceChildren(...rows);
  return buttons;
}

const endsHere = (tree, moves) => !tree.kids(moves.at(-1).id).length;

function moveParts(node, ply, { first, current, values, buttons, onGo }) {
  const number = ply % 2 ? (first || node.before ? `${Math.floor(ply / 2) + 1}…` : "") : `${Math.floor(ply / 2) + 1}.`;
  const [evaluation, left] = ["eval", "clk"].map((name) => node.comment?.match(`\\[%${name}\\s+([^\\],\\s]+)`)?.[1]);
  const value = values?.get(node.id) || evaluation;
  const button = h("button", { type: "button", text: node.san, "data-node": node.id, "aria-current": node.id === current ? "step" : null, onclick: () => onGo(node.id) });
  buttons.set(node.id, button);
  return [
    node.before && said(node.before),
    h("span", { class: "move-box" }, number && h("span", { class: "number", text: number }), button,
      node.nags.length > 0 && h("span", { class: "nag", text: node.nags.map(glyph).join(" ") }), value && h("span", { class: "worth", title: values?.get(node.id) ? "Value in the graph, White's view" : "Value of the game's comment", text: value }), left && h("span", { class: "worth", title: "Time left", text: `⏱${left}` })),
    node.comment && said(node.comment),
  ];
}

// a comment, without the commands of other programs, such as [%clk 0:01:02]
function said(text) {
  const words = text.replace(/\[%[^\]]*\]\s*/g, "").trim();
  return words && h("span", { class: "said", text: words });
}
