// The drill: the board asks for the own moves that are due, along lines from move one.

import { ask, send } from "./api.js";
import { Board } from "./board.js";
import { boardKeys } from "./board_keys.js";
import { after, menOf, said } from "./chess.js";
import { h, put } from "./dom.js";
import { open } from "./state.js";

const STEP_MS = 450; // between the moves that lead to a question

// the day in the calendar of the person
export const today = () => new Date().toLocaleDateString("sv-SE");

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

// drills a side in `host`; returns what ends it
export function drill(host, { side, toast, done }) {
  const place = h("div", { class: "drill-board" });
  const line = h("p", { class: "drill-line" });
  const prompt = h("p", { class: "drill-prompt", role: "status" });
  const tally = h("p", { class: "note" });
  const spoken = h("p", { class: "hidden", "aria-live": "polite" });
  const look = h("button", { type: "button", id: "drill-look", text: "Show on the large board", onclick: () => question && open({ root: question.root, line: moves }) });
  put(host, h("div", { class: "drill" }, place, h("div", {}, prompt, line, tally, h("div", { class: "row" }, look, h("button", { type: "button", id: "drill-stop", text: "End the drill", onclick: () => end() })))), spoken);
  const board = new Board(place, { onMove: (move) => answer(move).catch(fail), label: "Drill" });
  boardKeys(board, (text) => { spoken.textContent = text; });
  board.flip(side === "black");

  let isOn = true;
  let question = null;
  let moves = [];   // the line that is shown, UCI
  let shown = [];   // the same in SAN
  let right = null; // the moves of the repertoire, once an answer was wrong
  let rules = {};   // of the question: { legal, check }
  const score = { asked: 0, right: 0 };
  const fail = (error) => { toast(error.message); end(); };
  const end = () => { if (isOn) { isOn = false; done(); } };

  function showLine() {
    line.textContent = moves.length ? said(question.root, shown) : "From the first position.";
    tally.textContent = `${score.right} of ${score.asked} right; ${question.due} of ${question.cards} due.`;
  }

  async function next(anew) {
    const asked = { side, day: today(), root: question?.root, line: anew ? "" : moves.join(" "), anew: anew ? "true" : "" };
    const found = await ask("drill", asked);
    if (!isOn) return;
    if (!found.question) { finish(); return; }
    const isOnward = !anew && question?.root === found.question.root && moves.every((move, k) => move === found.question.moves[k]);
    question = found.question;
    await walk(isOnward ? moves.length : 0);
  }

  // shows the moves that lead to the question, one by one
  async function walk(from) {
    const known = await ask("position", { root: question.root, line: question.moves.join(" ") });
    shown = known.line.map((step) => step.san);
    let men = question.moves.slice(0, from).reduce(after, menOf(question.root));
    prompt.textContent = "";
    for (let k = from; k < question.moves.length; k += 1) {
      board.show({ men, last: k ? question.moves[k - 1] : null });
      await pause(k === from && !from ? 0 : STEP_MS); // one move after the other
      if (!isOn) return;
      men = after(men, question.moves[k]);
    }
    moves = question.moves;
    right = null;
    rules = { legal: known.legal.map((each) => each.move), check: known.check };
    board.show({ fen: question.position, ...rules, last: moves.at(-1) || null });
    prompt.textContent = `Your move${shown.length ? ` after ${shown.at(-1)}` : ""}?`;
    showLine();
  }

  async function answer(move) {
    if (right) { insist(move); return; }
    const verdict = await send("drill", { side, day: today(), root: question.root, line: moves.join(" "), move });
    if (!isOn) return;
    score.asked += 1;
    score.right += verdict.right ? 1 : 0;
    question.due = verdict.due;
    if (verdict.right) {
      prompt.textContent = `Right, again on ${verdict.next_due}.`;
      await goOn(move, verdict.sans[verdict.moves.indexOf(move)]);
      return;
    }
    right = verdict;
    prompt.textContent = `No: ${verdict.sans.join(" or ")}. Play it to go on.`;
    askAgain();
  }

  // the question again, with the right move drawn
  function askAgain() {
    board.show({ fen: question.position, ...rules, last: moves.at(-1) || null, arrows: right.moves.map((move) => ({ move, kind: "best", width: 1 })) });
    showLine();
  }

  function insist(move) {
    const k = right.moves.indexOf(move);
    if (k < 0) { askAgain(); return; }
    goOn(move, right.sans[k]).catch(fail);
  }

  async function goOn(move, san) {
    const men = after(menOf(question.position), move);
    board.show({ men, last: move });
    [moves, shown] = [[...moves, move], [...shown, san]];
    showLine();
    await pause(STEP_MS);
    if (isOn) await next(false);
  }

  function finish() {
    prompt.textContent = "Nothing is due any more.";
    line.textContent = "";
    tally.textContent = `${score.right} of ${score.asked} right.`;
    host.querySelector("#drill-stop").textContent = "Back to the repertoire";
    look.hidden = true;
  }

  next(true).catch(fail);
  return () => { isOn = false; };
}
