// FEN, PGN and links in and out.

import { send } from "./api.js";
import { download, h, put } from "./dom.js";
import { state } from "./state.js";

const $ = (id) => document.getElementById(id);
const LARGEST = 30e6; // bytes that are pasted or opened; larger files are imported
let hands = {};

export const exchange = {
  set(given) {
    hands = given;
    $("load").addEventListener("click", () => read($("text").value));
    $("open-file").addEventListener("change", openFile);
    $("save-pgn").addEventListener("click", savePgn);
    document.addEventListener("paste", (event) => { // anywhere but into a field
      if (event.target.closest("input, textarea") || document.querySelector("dialog[open]")) return;
      read(event.clipboardData.getData("text"));
    });
    $("copy-fen").addEventListener("click", () => copy($("fen")));
    $("copy-link").addEventListener("click", () => copy($("link")));
  },
  show() {
    $("fen").value = state.look.position;
    $("link").value = location.origin + hands.address();
  },
};

async function read(text) {
  if (!text.trim()) return;
  try {
    const found = await send("read", { text });
    const several = found.games.length > 1;
    put($("games-found"), several && gamesList(found, text), found.problems.length && h("p", { class: "note", text: found.problems.slice(0, 3).join(" ") }));
    if (several) $("exchange").open = true;
    else {
      await openGame(found.games[0], text);
      if (found.problems.length) hands.toast(found.problems[0]);
    }
  } catch (error) {
    hands.toast(error.message);
  }
}

const gameOf = (game) => ({ root: game.root, line: game.line, at: game.line.length, headers: Object.keys(game.headers).length ? game.headers : null });

// a game with comments or variations comes with all of it
async function openGame(game, text) {
  if (!/[{(;$!?]/.test(text)) { hands.open(gameOf(game)); return; }
  const whole = await send("read-tree", { text, number: game.number });
  hands.draft(whole, Infinity);
  if (whole.left_out.length) hands.toast(`Left out: ${whole.left_out.slice(0, 3).join("; ")}${whole.left_out.length > 3 ? ` and ${whole.left_out.length - 3} more` : ""}`);
}

function gamesList(found, text) {
  const rows = found.games.map((game) => h("li", {}, h("button", {
    type: "button", class: "link", onclick: () => openGame(game, text).catch((error) => hands.toast(error.message)),
    text: `${game.headers.White || "?"} – ${game.headers.Black || "?"} ${game.headers.Result || ""} (${game.line.length} plies)`,
  })));
  return h("div", {}, h("p", { class: "note", text: `${found.games.length}${found.more ? " first" : ""} games:` }), h("ol", { class: "games scroll" }, rows));
}

async function openFile() {
  const [file] = $("open-file").files;
  if (!file) return;
  if (file.size > LARGEST) hands.toast("That is a large file; import it in the view File instead.");
  else await read(await file.text());
  $("open-file").value = "";
}

async function savePgn() {
  try {
    const { pgn } = await send("tree-pgn", hands.notation());
    download(new Blob([pgn], { type: "application/x-chess-pgn" }), "game.pgn");
  } catch (error) {
    hands.toast(error.message);
  }
}

function copy(input) {
  input.select();
  navigator.clipboard?.writeText(input.value).catch(() => document.execCommand("copy"));
}
