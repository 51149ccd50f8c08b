// The list of keys.

import { h, put } from "./dom.js";

const KEYS = [
  ["← →", "one move back, forward"], ["Home End", "first, last position"], ["↑ ↓", "the variation before, behind"], ["space", "play the best move"],
  ["f", "turn the board"], ["a", "the search follows the board, or stops"], ["c", "write a comment"], ["m M", "next mistake, the one before"], ["Ctrl-Z Ctrl-Y", "undo, redo"], ["?", "this list"], ["Esc", "close, and wipe away what is drawn"],
  ["right button", "draw an arrow or a circle; other colours with Shift, Ctrl, Alt"], ["Tab, arrows, Enter", "move on the board by keys"],
];

export function toggleKeys(dialog) {
  if (dialog.open) { dialog.close(); return; }
  put(dialog, h("h2", { id: "keys-title", text: "Keys" }), h("dl", { class: "keys" }, KEYS.flatMap(([key, does]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: does })])),
    h("button", { type: "button", text: "Close", onclick: () => dialog.close() }));
  dialog.showModal();
}
