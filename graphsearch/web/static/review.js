// Reviews of games: what is to be reviewed, the curve with its marks, the moves with their losses, the files.

import { ask, latest, upload } from "./api.js";
import { count, fields, h, link, put, s, score, table } from "./dom.js";
import { openDraft } from "./notation.js";
import { jobRow } from "./search.js";
import { open, pgnOfLine, state, tell, toast } from "./state.js";
import { gameChart, heightOf } from "./values.js";

const KINDS = { "??": "blunder", "?": "mistake", "?!": "inaccuracy", "!": "good" };
const given = { visits: "1000", player: "", since: "" };
let found = null; // the review that is shown
let chosen = { job: null, game: 0 }; // what is shown, kept while the page is open

export const reviewView = {
  name: "review",
  make(host) {
    const jobs = h("div", {});
    const shown = h("div", {});
    const last = latest();
    const draw = () => drawReview(shown, (game) => { chosen.game = game; draw(); });
    const fetchIt = (number, { marks = false } = {}) => {
      if (chosen.job !== number) chosen = { job: number, game: 0 };
      last(ask(`review/${number}`), (answer) => { found = { ...answer, number }; draw(); if (marks) markBoard(); }, (error) => toast(error.message));
    };
    const list = () => drawJobs(jobs, fetchIt);
    put(host, state.file?.read_only ? h("p", { class: "note", text: "This page is read-only." }) : reviewForm(), jobs, shown);
    const show = () => {
      list();
      if (chosen.job !== null) fetchIt(chosen.job);
    };
    let newest = Math.max(0, ...reviews().map((job) => job.number));
    const queue = () => {
      list();
      const ended = reviews().find((job) => job.state === "done");
      if (ended && ended.number > newest) { newest = ended.number; fetchIt(newest, { marks: true }); }
    };
    return { show, on: { queue, position: () => shown.querySelector(".curve")?.mark() } };
  },
};

// the game on the board gets its marks, unless a study is shown, or the board has gone elsewhere
function markBoard() {
  const game = found.games.find((each) => each.start === state.root && isLineOf(each, state.line));
  if (game && !state.study) goTo(game, state.at);
}

const reviews = () => state.queue.ended.filter((job) => job.kind === "review");

// ------------------------------------------------------------ what to review
function reviewForm() {
  const file = h("input", { type: "file", id: "review-file", accept: ".pgn,.gz,.zst" });
  const fromFile = async (event) => {
    event.preventDefault();
    const [one] = file.files;
    if (!one) { toast("Choose a file first."); return; }
    await upload("review", given, one);
    file.value = "";
  };
  const fromLine = async () => {
    if (!state.line.length) toast("Play moves or open a game first.");
    else await upload("review", { ...given, name: "line.pgn" }, new Blob([await pgnOfLine()]));
  };
  return h("form", { onsubmit: fromFile }, h("div", { class: "inline" }, fields("review", given, [["visits", "Visits of every position", "1000", 10], ["player", "Only games of", "any player", 10], ["since", "Since", "2024-05", 10]])),
    h("div", { class: "row" }, h("label", { for: "review-file", class: "hidden", text: "PGN file" }), file, h("button", { class: "primary", text: "Review this file" }),
      h("button", { type: "button", id: "review-line", text: "Review the line on the board", onclick: fromLine })),
    h("p", { class: "note", text: "A position that has its visits in the file costs nothing. Reviews wait in the queue (Analysis, Search)." }));
}

function drawJobs(host, fetchIt) {
  const rows = [...state.queue.running.filter((job) => job.kind === "review"), ...reviews()].map((job) => jobRow(job,
    job.state === "done" && job.facts.missing && h("span", { class: "note", text: "Its files are not beside this graph file; review the games again, which costs nothing." }),
    job.state === "done" && job.facts.reviewed > 0 && !job.facts.missing && h("button", { type: "button", text: "Show", "data-focus": `show ${job.number}`, onclick: () => fetchIt(job.number) })));
  put(host, rows.length > 0 && h("ul", { class: "jobs" }, rows));
}

// ------------------------------------------------------------ a review
const name = (game, side) => game.headers[side] || side;

function drawReview(host, choose) {
  if (!found.games.length) { put(host, h("p", { class: "note", text: "No game was reviewed." })); return; }
  const game = found.games[Math.min(chosen.game, found.games.length - 1)];
  const games = h("select", { id: "review-game", "aria-label": "Game", onchange: (event) => choose(Number(event.target.value)) },
    found.games.map((each, k) => h("option", { value: k, selected: each === game, text: `${each.game}. ${name(each, "White")} – ${name(each, "Black")} ${each.result}` })));
  const more = found.reviewed - found.games.length;
  put(host, h("div", { class: "row" }, games, h("a", { class: "button", href: `/api/review/${found.number}/pgn`, text: "Annotated PGN" })),
    more > 0 && h("p", { class: "note", text: `${count(more)} more games are in the file.` }),
    h("div", { class: "chart" }, curveOf(game)), figures(game), moves(game));
}

const decimal = (x) => (x === null ? "" : x.toFixed(1));

function figures(game) {
  const rows = ["White", "Black"].map((side) => {
    const { phases, ...all } = game.players[side.toLowerCase()];
    return [name(game, side), all.moves, ...[all.accuracy, all.mean_loss, all.mean_loss_cp].map(decimal), all.blunders, all.mistakes, all.inaccuracies, all.good, ...Object.values(phases).map((phase) => decimal(phase.accuracy))];
  });
  return table(["Player", "Moves", "Accuracy", "Loss %", "Loss cp", "??", "?", "?!", "!", "Opening", "Middlegame", "Endgame"], rows, { caption: "Figures" });
}

const gameOf = (game) => ({ root: game.start, line: game.moves.map((move) => move.move), headers: game.headers });
const isLineOf = (game, line) => game.moves.length === line.length && game.moves.every((move, k) => move.move === line[k]);

// the game with its marks and better lines, in the notation
const drawn = latest();
function goTo(game, at) {
  if (state.game?.review === game && isLineOf(game, state.game.line)) { open({ root: game.start, line: state.game.line, at, game: state.game }); return; }
  drawn(ask(`review/${found.number}/game/${found.games.indexOf(game)}`), (tree) => openDraft(tree, at, game), (error) => tell("error", error));
}

// the better line instead of a move, in the game that one can go back to
const better = (game, move) => open({ root: game.start, line: [...game.moves.slice(0, move.ply).map((each) => each.move), ...move.best_line], at: move.ply + 1, game: gameOf(game), adds: true });

const value = (cp, mate) => (mate === 0 ? "mate" : score({ cp, mate }));
const number = (move) => `${move.number}${move.white ? "." : "…"}`;

function curveOf(game) {
  const points = [game, ...game.moves].map(heightOf);
  const first = game.moves.length ? 2 * (game.moves[0].number - 1) + (game.moves[0].white ? 0 : 1) : 0;
  const { svg, x, y, mark } = gameChart("Score over the game, from White's side", first, points.length - 1, [...points.entries()], (ply) => goTo(game, ply));
  for (const move of game.moves.filter((each) => each.glyph)) {
    const about = `${number(move)} ${move.san}${move.glyph} ${value(move.cp, move.mate)}${move.loss ? `; ${move.best_san} ${value(move.best_cp, move.best_mate)}` : ""}`;
    svg.append(s("circle", { class: `mark ${KINDS[move.glyph]}`, cx: x(move.ply + 1), cy: y(points[move.ply + 1]), r: 4.5 }, s("title", { text: about })));
  }
  svg.mark = () => mark(isLineOf(game, state.game?.line || []) ? state.at : null);
  svg.mark();
  return svg;
}

function moves(game) {
  const rows = game.moves.map((move) => [
    h("span", {}, link(`${number(move)} ${move.san}`, () => goTo(game, move.ply + 1)), move.glyph && h("b", { class: `mark ${KINDS[move.glyph]}`, text: ` ${move.glyph}` }), move.novelty !== null && h("span", { class: "book", title: `new after ${count(move.novelty)} games`, text: "N" })),
    value(move.cp, move.mate), move.loss ? (50 * move.loss).toFixed(1) : "", move.loss > 0 && link(move.best_line.join(" "), () => better(game, move)),
    move.loss > 0 ? value(move.best_cp, move.best_mate) : "", move.phase,
  ]);
  return table(["Move", "Value", "Loss %", "Better", "Its value", "Phase"], rows, { caption: "Moves of the game", kind: "line-table" });
}
