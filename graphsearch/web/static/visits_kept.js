// Visits to a file that cannot be written: the browser keeps what the file said, of the last two.

import { send } from "./api.js";
import { state } from "./state.js";

const PAUSE_MS = 30 * 60_000; // looks less apart are one visit, as the file counts them
const nameOf = () => `seen ${state.file.name}`;
const kept = () => { try { return JSON.parse(localStorage.getItem(nameOf()) || "[]"); } catch { return []; } };
const isNow = (visit) => Date.now() - Date.parse(visit.ended) < PAUSE_MS;

// keeps the numbers of these positions (FEN), and of the most visited ones
export async function keepHere(looked) {
  const { seen } = await send("snapshot", { looked });
  const [last, before] = kept();
  const visits = [{ ended: new Date().toISOString(), seen }, last && isNow(last) ? before : last].filter(Boolean);
  try { localStorage.setItem(nameOf(), JSON.stringify(visits)); } catch { /* storage is off, or full */ }
}

export async function changesHere(given) {
  const [last, before] = kept();
  const base = last && isNow(last) ? before : last;
  return base ? send("changes", { since: base.ended, seen: base.seen, ...given }) : { since: null, changes: [] };
}
