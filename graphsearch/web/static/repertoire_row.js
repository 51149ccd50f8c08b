// Adding moves to a repertoire and removing them, from rows of moves and from the notation.

import { send } from "./api.js";
import { turnOf } from "./chess.js";
import { points } from "./dom.js";
import { played, refresh, state, tell, toast } from "./state.js";

export const SIDES = { white: "White’s", black: "Black’s" };
export const has = (side, move) => Boolean(state.look?.repertoire[side]?.includes(move));

// adds a line, or removes its last move; tells what was done
export async function change(side, { root, line }, { remove = false } = {}) {
  const { added, removed } = await send(`repertoire-${remove ? "remove" : "add"}`, { side, root, line: line.join(" ") });
  if (added || removed) tell("edited");
  toast(`${SIDES[side]} repertoire: ${remove ? `${points(removed, "move")} removed` : added ? `${points(added, "move")} added` : "it has this line already"}.`);
  refresh();
}

// items of the menu of a row: [text, act]
export function rowItems(move) {
  const mine = turnOf(state.look.position) === "w" ? "white" : "black";
  const sides = Object.keys(SIDES).filter((side) => side === mine || has(side, move));
  return sides.map((side) => {
    const remove = has(side, move);
    return [`${remove ? "Remove from" : "Add to"} ${SIDES[side]} repertoire`, () => change(side, { root: state.root, line: [...played(), move] }, { remove })];
  });
}

export const lineItems = (root, line) => Object.keys(SIDES).map((side) => [`Add this line to ${SIDES[side]} repertoire`, () => change(side, { root, line })]);
