// Values along the line as a curve, the visits below the position as an icicle, and the root's history.

import { ask, latest } from "./api.js";
import { chart, gameChart, heightOf, pathOf, powers } from "./chart.js";
import { count, forWhite, h, link, moment, pawns, percent, put, s, score, short, signed, table, tint, visited, when, whiteChip } from "./dom.js";
import { turnOf } from "./chess.js";
import { go, here, open, played, pointed, state, wholeLine } from "./state.js";

export const valuesView = {
  name: "values",
  make(host) {
    const curve = h("div", { class: "chart" });
    const icicle = h("div", { class: "chart" });
    const past = h("div", { class: "chart" });
    const depth = h("input", { type: "range", min: 2, max: 12, value: 6, id: "icicle-depth", onchange: () => below() });
    put(host, h("h2", { text: "The line" }), curve,
      h("div", { class: "row" }, h("h2", { text: "Visits below this position" }), h("span", { class: "grow" }), h("label", { for: "icicle-depth", text: "Plies" }), depth), icicle,
      h("h2", { text: "History of this root" }), past);
    let shownLine = null;
    const [ofLine, ofTree, ofPast] = [latest(), latest(), latest()];
    const say = (place) => (error) => put(place, h("p", { class: "note", text: error.message }));
    const along = () => {
      const asked = wholeLine();
      shownLine = asked.root + asked.line;
      if (asked.line) ofLine(ask("values", asked), (found) => drawCurve(curve, found.points), say(curve));
      else put(curve, h("p", { class: "note", text: "Play moves or open a game; its values are drawn here." }));
    };
    const below = () => {
      const base = { root: state.root, line: played() };
      ofTree(ask("tree", { ...here(), depth: depth.value, share: 60 }), (found) => drawIcicle(icicle, found, base), say(icicle));
    };
    const before = () => ofPast(ask("history", here()), (found) => drawHistory(past, found), say(past));
    const place = () => {
      const { root, line } = wholeLine();
      if (shownLine === root + line) markPlace(curve); else along();
      below();
      before();
    };
    return { show() { along(); below(); before(); }, on: { position: place, file() { along(); below(); before(); } } };
  },
};

// ------------------------------------------------------------ the curve
function drawCurve(host, points) {
  const known = points.filter((point) => point.q !== null);
  if (!known.length) { put(host, h("p", { class: "note", text: "The file knows no position of the line." }), lineTable(points)); return; }
  const first = 2 * (points[0].number - 1) + (points[0].turn === "w" ? 0 : 1);
  const { svg, x, y, mark } = gameChart("Score along the line, from White's side", first, points.length - 1, known.map((point) => [point.ply, heightOf(point)]), {}, go);
  for (const point of known) {
    const loss = point.loss > 0.3 ? "blunder" : point.loss > 0.15 ? "mistake" : "";
    const about = `${sayMove(point)}: ${score(point)}, ${count(point.n)} visits${point.best_san ? `; best ${point.best_san}` : ""}${point.loss_cp ? `, ${pawns(point.loss_cp)} lost` : ""}`;
    svg.append(s("circle", { class: `dot ${loss}`, cx: x(point.ply), cy: y(heightOf(point)), r: loss ? 5 : points.length > 80 ? 2 : 3.2, "data-ply": point.ply }, s("title", { text: about })));
  }
  svg.mark = mark;
  put(host, svg, h("p", { class: "note", text: "Scores in pawns by move, White's view; click to go there. Large dots: moves that lost more than 0.15 (ring) or 0.3 (full) of Q against the best one." }), lineTable(points));
  markPlace(host);
}

const sayMove = (point) => `${point.number}${point.turn === "w" ? "." : "…"}${point.san ? ` ${point.san}` : " last position"}`;

function markPlace(host) {
  const svg = host.querySelector("svg");
  if (!svg?.mark) return;
  svg.mark(state.at);
  host.querySelectorAll("tr[data-ply]").forEach((row) => row.toggleAttribute("aria-current", Number(row.dataset.ply) === state.at));
}

function lineTable(points) {
  const rows = points.map((point) => [link(sayMove(point), () => go(point.ply)), point.n, point.q !== null && whiteChip(point), point.best_san, pawns(point.loss_cp)]);
  return table(["Move", "Visits", "Score", "Best", "Loss"], rows, { caption: "Values along the line", kind: "line-table", mark(tr, k) { tr.dataset.ply = points[k].ply; } });
}

// ------------------------------------------------------------ the icicle
const WIDE_CELL = 26; // of 1000: a cell that keys reach, and that has its move in it

function drawIcicle(host, found, base) {
  const { tree, depth } = found;
  if (!tree.branches.length) { put(host, h("p", { class: "note", text: "No move of this position has enough visits." })); return; }
  const [width, step, gap] = [1000, 30, 2];
  const svg = s("svg", { class: "icicle", viewBox: `0 0 ${width} ${depth * step}`, role: "group", "aria-label": "Share of visits per move, ply by ply" });
  const total = tree.branches.reduce((sum, branch) => sum + branch.n, 0);
  const drawAll = ({ branches, n, position }, x, w, level, line) => {
    const all = Math.max(n, branches.reduce((sum, branch) => sum + branch.n, 0));
    let at = x;
    for (const branch of branches) {
      const part = (w * branch.n) / all;
      if (part > 1.5) draw(branch, at, part, level, line, position);
      at += part;
    }
  };
  const draw = (branch, x, w, level, line, fen) => {
    const worth = forWhite(branch, fen);
    const moves = [...line, branch.move];
    const name = branch.san + (branch.transposes_to ? " ⇄" : "");
    const visit = () => open({ root: base.root, line: [...base.line, ...moves] });
    const share = `${name}: ${percent(branch.n / total)} of the visits, ${count(branch.n)}; ${score(worth)}${branch.transposes_to ? `; goes on at ${branch.transposes_to.join(" ")}` : ""}`;
    const cell = s("g", { class: "cell", tabindex: w > WIDE_CELL ? 0 : null, role: w > WIDE_CELL ? "link" : "img", "aria-label": share, ...visited(visit), ...(level === 0 && pointed(branch.move)) }, s("title", { text: share }),
      s("rect", { class: tint(worth.q), x: x + gap / 2, y: level * step, width: Math.max(0.5, w - gap), height: step - gap, rx: 2 }),
      w > WIDE_CELL && s("text", { x: x + w / 2, y: level * step + step / 2 + 3, "text-anchor": "middle", text: fits(name, w) }));
    svg.append(cell);
    if (level + 1 < depth) drawAll(branch, x, w, level + 1, moves);
  };
  drawAll({ ...tree, n: 0 }, 0, width, 0, []);
  put(host, svg, h("p", { class: "note" }, "Width: share of the visits. Colour: Q from White's view, ", key()));
}

const fits = (text, width) => (text.length * 8 > width ? text.slice(0, Math.max(1, Math.floor(width / 8))) : text);

export function key() {
  return h("span", { class: "key" }, [-1, -0.5, 0, 0.5, 1].map((q) => h("span", { class: `chip ${tint(q)}`, text: signed(q, 1) })));
}

// ------------------------------------------------------------ the history
function drawHistory(host, { position, points: given, evaluators }) {
  const points = given.map((point) => ({ ...point, ...forWhite(point, position), wdl: turnOf(position) === "w" ? [point.win, point.draw, point.loss] : [point.loss, point.draw, point.win] }));
  if (!points.length) { put(host, h("p", { class: "note", text: "The file has no history of this position as a root; searches write one at every save." })); return; }
  const searched = points.filter((point) => point.book === null);
  put(host, searched.length > 0 && historyCurve(searched, evaluators), searched.length > 0 && h("p", { class: "note", text: "Score from White's view against visits, at every save; a ring where the best move changed, a line where another evaluator takes over." }), historyTable(points));
}

function historyCurve(points, evaluators) {
  const visits = points.map((point) => Math.max(1, point.n));
  const [from, to] = [Math.min(...visits) / 1.2, Math.max(...visits) * 1.2];
  const labels = powers(from, to).map((each) => [each, short(each)]);
  const { svg, x, y, top, bottom } = chart("Score of the root against its visits, over all runs", { from, to, labels, scale: Math.log10 }, { values: points.map(heightOf) });
  const places = points.map((point, k) => [x(visits[k]), y(heightOf(point))]);
  svg.append(s("path", { class: "trail", d: pathOf(places) }));
  let evaluator = points[0].evaluator;
  points.forEach((point, k) => {
    const [px, py] = places[k];
    if (point.evaluator !== null && point.evaluator !== evaluator) {
      evaluator = point.evaluator;
      svg.append(s("line", { class: "grid", x1: px, x2: px, y1: top, y2: bottom }), s("text", { class: "tick", x: px - 4, y: bottom - 6, "text-anchor": "end", text: evaluators[evaluator] || "" }));
    }
    svg.append(s("circle", { class: point.changed ? "dot mistake" : "dot", cx: px, cy: py, r: point.changed ? 5 : 3 }, s("title", { text: `${count(point.n)} visits, ${score(point)}, run ${point.run}, ${moment(point.saved)}: ${point.line.join(" ") || point.best_san || "–"}` })));
    if (point.changed && point.best_san) svg.append(s("text", { class: "tick", x: px, y: Math.max(top + 8, py - 9), "text-anchor": "middle", text: point.best_san }));
  });
  return svg;
}

// the last save of each run and book, and every change of the best move
function historyTable(points) {
  const last = new Map(points.map((point) => [`${point.run} ${point.book}`, point]));
  const shown = points.filter((point) => point.changed || last.get(`${point.run} ${point.book}`) === point);
  const rows = shown.map((point) => [when(point.saved), point.run, point.book ? `book ${point.book}` : point.kind || "", point.n, whiteChip(point),
    point.win === null ? "" : point.wdl.map((part) => Math.round(100 * part)).join(" "), point.depth ?? "", `${point.best_san || ""}${point.changed ? " *" : ""}`, point.line.join(" ")]);
  return table(["Saved (UTC)", "Run", "Kind", "Visits", "Score", "W D L", "Depth", "Best", "Line"], rows, { caption: "The last save of each run, and changes of the best move (*)" });
}
