// The keys: what each does, once for the page and for the list of keys.

import { h, put } from "./dom.js";

// `act`: a name of app.js; `shown`: how the list has the keys
export const KEYS = [
  { shown: "← →", about: "one move back, forward" }, { keys: ["ArrowLeft"], act: "back" }, { keys: ["ArrowRight"], act: "forward" },
  { shown: "Home End", about: "first, last position" }, { keys: ["Home"], act: "first" }, { keys: ["End"], act: "last" },
  { shown: "↑ ↓", about: "the variation before, behind" }, { keys: ["ArrowUp"], act: "before" }, { keys: ["ArrowDown"], act: "behind" },
  { shown: "Nf3, e4, 0-0 …", about: "a move, as soon as it can be no other" },
  { keys: [" "], shown: "space", about: "play the best move", act: "best" },
  { keys: ["s", "S"], shown: "s", about: "search, where the board goes; stop", act: "follow" },
  { shown: "+ −", about: "more, fewer lines" }, { keys: ["+", "="], act: "more" }, { keys: ["-"], act: "fewer" },
  { shown: "m M", about: "next mistake, the one before" }, { keys: ["m"], act: "mistake" }, { keys: ["M"], act: "mistakeBefore" },
  { keys: ["w", "W"], shown: "w", about: "write a comment", act: "comment" },
  { keys: ["t", "T"], shown: "t", about: "turn the board", act: "flip" },
  { shown: "Ctrl-Z Ctrl-Y", about: "undo, redo" },
  { shown: "Ctrl-V", about: "open what was copied: moves, a FEN, a PGN" },
  { keys: ["Escape"], shown: "Esc", about: "close, and wipe away what is drawn", act: "escape" },
  { shown: "right button", about: "draw an arrow or a circle; other colours with Shift, Ctrl, Alt" },
  { shown: "Tab, arrows, Enter", about: "move on the board by keys" },
  { keys: ["?"], shown: "?", about: "this list", act: "keys" },
];

export function toggleKeys(dialog) {
  if (dialog.open) { dialog.close(); return; }
  const rows = KEYS.filter(({ shown }) => shown).flatMap(({ shown, about }) => [h("dt", {}, h("kbd", { text: shown })), h("dd", { text: about })]);
  put(dialog, h("h2", { id: "keys-title", text: "Keys" }), h("dl", { class: "keys" }, rows), h("button", { type: "button", text: "Close", onclick: () => dialog.close() }));
  dialog.showModal();
}
