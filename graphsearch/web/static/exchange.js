// FEN, PGN and links in and out.

import { send } from "./api.js";
import { h, link, put } from "./dom.js";
import { openDraft, savePgn } from "./notation.js";
import { addressOf, open, state, toast } from "./state.js";

const $ = (id) => document.getElementById(id);
const LARGEST = 30e6; // bytes that are pasted or opened; larger files are imported

export function exchange() {
  $("load").addEventListener("click", () => read($("text").value));
  $("open-file").addEventListener("change", openFile);
  $("save-pgn").addEventListener("click", savePgn);
  document.addEventListener("paste", (event) => { // anywhere but into a field
    if (event.target.closest("input, textarea") || document.querySelector("dialog[open]")) return;
    read(event.clipboardData.getData("text"));
  });
  for (const name of ["fen", "link"]) $(`copy-${name}`).addEventListener("click", () => copy($(name)));
}

export function showAddress() {
  $("fen").value = state.look.position;
  $("link").value = location.origin + addressOf();
}

async function read(text) {
  if (!text.trim()) return;
  const found = await send("read", { text });
  const several = found.games.length > 1;
  put($("games-found"), several && gamesList(found, text), found.problems.length && h("p", { class: "note", text: found.problems.slice(0, 3).join(" ") }));
  if (several) $("exchange").open = true;
  else {
    await openGame(found.games[0], text);
    if (found.problems.length) toast(found.problems[0]);
  }
}

// a game with comments or variations comes with all of it
async function openGame(game, text) {
  const { root, line, headers } = game;
  if (!/[{(;$!?]/.test(text)) { open({ root, line, headers: Object.keys(headers).length ? headers : null }); return; }
  openDraft(await send("read-tree", { text, number: game.number }), Infinity);
}

function gamesList(found, text) {
  const rows = found.games.map((game) => h("li", {}, link(`${game.headers.White || "?"} – ${game.headers.Black || "?"} ${game.headers.Result || ""} (${game.line.length} plies)`, () => openGame(game, text))));
  return h("div", {}, h("p", { class: "note", text: `${found.games.length}${found.more ? " first" : ""} games:` }), h("ol", { class: "games scroll" }, rows));
}

async function openFile() {
  const [file] = $("open-file").files;
  if (!file) return;
  if (file.size > LARGEST) toast("That is a large file; import it in the view File instead.");
  else await read(await file.text()).finally(() => { $("open-file").value = ""; });
}

function copy(input) {
  input.select();
  navigator.clipboard?.writeText(input.value).catch(() => document.execCommand("copy"));
}
