// What changed since the last visit: a quiet line when the file is opened, a list, and a note on each position.
//
// The file keeps what it said when it was last looked at; where it cannot be written, the browser does.

import { ask } from "./api.js";
import { forWhite, h, points, proven, put, score } from "./dom.js";
import { on, state } from "./state.js";

const MOST_KEPT = 500; // positions that were looked at
const UNITS = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000]];
const $ = (id) => document.getElementById(id);

let found = null;         // the answer to /api/changes
let changes = new Map();  // by key
const looked = new Set(); // FENs

function ago(moment) {
  const ms = Date.now() - Date.parse(moment);
  const [unit, size] = UNITS.find(([, one]) => ms >= one) || UNITS[2];
  return new Intl.RelativeTimeFormat("en").format(-Math.max(1, Math.floor(ms / size)), unit);
}

const proofOf = ({ old, new: now, position }) => (old.bounds.join() === now.bounds.join() ? "" : `${proven(old.bounds, position) || "open"} → ${proven(now.bounds, position) || "open"}`);

// of a file that cannot be written the browser keeps what it said
const browser = () => import("./visits_kept.js");
async function changesOf(given = {}) {
  const answer = await ask("changes", given);
  return answer.closed ? { ...await (await browser()).changesHere(given), closed: answer.closed } : answer;
}
const keepHere = async () => { (await browser()).keepHere([...looked]).catch(() => {}); };
const list = async () => { (await import("./visits_list.js")).showChanges(ago(found.since), changesOf({ ways: "true" }), proofOf); };

async function load() {
  found = await changesOf();
  changes = new Map(found.changes.map((row) => [row.key, row]));
  if (found.closed) keepHere();
  if (!found.since) return;
  const { best, q, bounds } = found.counts;
  const parts = [best && `${points(best, "best move")}`, q && `${points(q, "value")}`, bounds && `${points(bounds, "proof")}`].filter(Boolean);
  $("visit").hidden = !parts.length;
  put($("visit"), `Since ${ago(found.since)}: `, h("button", { type: "button", id: "show-changes", class: "link", text: `${parts.join(", ")} changed`, onclick: list }));
  here();
}

// what changed of the position that is shown
function here() {
  if (state.look?.node) {
    looked.delete(state.look.position);
    looked.add(state.look.position);
    if (looked.size > MOST_KEPT) looked.delete(looked.values().next().value);
  }
  const row = changes.get(state.look?.key);
  const value = (worth) => score(forWhite({ cp: worth.cp }, row.position));
  $("since").textContent = !row ? "" : `Since ${ago(found.since)}: ${[row.what.includes("best") && `best ${row.old.best_san} → ${row.new.best_san}`, row.what.includes("q") && `${value(row.old)} → ${value(row.new)}`, proofOf(row)].filter(Boolean).join("; ")}.`;
}

// the visit goes on until the page is hidden
function leave() {
  if (!found || !looked.size) return;
  if (found.closed) keepHere();
  else navigator.sendBeacon("/api/visit", JSON.stringify({ looked: [...looked] }));
}

export function visits() {
  let isAsked = false;
  on("position", here);
  on("facts", () => {
    if (isAsked) return;
    isAsked = true;
    load().catch(() => {}); // a file that cannot be read is told elsewhere
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); });
  window.addEventListener("pagehide", leave);
}
