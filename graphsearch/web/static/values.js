// Values along the line as a curve, the visits below the position as an icicle, and the root's history.

import { ask, latest } from "./api.js";
import { bar, count, forWhite, h, pawns, percent, put, s, score, signed, table, tint, when } from "./dom.js";
import { turnOf } from "./chess.js";
import { go, here, open, played, state, tell, wholeLine } from "./state.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [760, 220, 40, 12, 12, 24];

export const valuesView = {
  name: "values",
  title: "Values",
  make(host, { toast }) {
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
    return { show() { along(); below(); before(); }, on: { position: place, file() { along(); below(); before(); } }, toast };
  },
};

// ------------------------------------------------------------ the curve
const heightOf = (range) => (q) => TOP + ((range - Math.max(-range, Math.min(range, q))) / (2 * range)) * (HEIGHT - TOP - BOTTOM);

// the least of some ranges of Q that holds all values
const rangeOf = (values) => [0.1, 0.25, 0.5, 1].find((range) => values.every((q) => Math.abs(q) <= range * 0.98)) || 1;

function axes(svg, y, range, [above, below]) {
  for (const [q, text] of [[range, above], [range / 2, signed(range / 2, 2)], [0, "0"], [-range / 2, signed(-range / 2, 2)], [-range, below]]) {
    svg.append(s("line", { class: q === 0 ? "axis" : "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(q), y2: y(q) }), s("text", { class: "tick", x: LEFT - 6, y: y(q) + 4, "text-anchor": "end", text }));
  }
}

function drawCurve(host, points) {
  const x = (ply) => LEFT + (ply / Math.max(1, points.length - 1)) * (WIDTH - LEFT - RIGHT);
  const svg = s("svg", { class: "curve", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Q along the line, from White's side" });
  const known = points.filter((point) => point.q !== null);
  const range = rangeOf(known.map((point) => point.q));
  const y = heightOf(range);
  axes(svg, y, range, [`+${range}`, `−${range}`]);
  const area = known.map((point, k) => `${k ? "L" : "M"}${x(point.ply).toFixed(1)},${y(point.q).toFixed(1)}`).join("");
  if (known.length > 1) svg.append(s("path", { class: "under", d: `${area}L${x(known.at(-1).ply).toFixed(1)},${y(0)}L${x(known[0].ply).toFixed(1)},${y(0)}Z` }), s("path", { class: "trail", d: area }));
  for (const point of known) {
    const loss = point.loss > 0.3 ? "blunder" : point.loss > 0.15 ? "mistake" : "";
    const about = `${sayMove(point)}: ${score(point)}, ${count(point.n)} visits${point.best_san ? `; best ${point.best_san}` : ""}${point.loss_cp ? `, ${pawns(point.loss_cp)} lost` : ""}`;
    svg.append(s("circle", { class: `dot ${loss}`, cx: x(point.ply), cy: y(point.q), r: loss ? 5 : points.length > 80 ? 2 : 3.2, "data-ply": point.ply }, s("title", { text: about })));
  }
  svg.append(s("line", { class: "now", y1: TOP, y2: HEIGHT - BOTTOM }));
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * WIDTH;
    go(Math.round(((at - LEFT) / (WIDTH - LEFT - RIGHT)) * (points.length - 1)));
  });
  svg.place = x;
  put(host, svg, h("p", { class: "note", text: "Q, and scores in pawns, White's view; click to go there. Large dots: moves that lost more than 0.15 (ring) or 0.3 (full) of Q against the best one." }), lineTable(points));
  markPlace(host);
}

const sayMove = (point) => `${point.number}${point.turn === "w" ? "." : "…"}${point.san ? ` ${point.san}` : " last position"}`;

function markPlace(host) {
  const svg = host.querySelector("svg");
  if (!svg?.place) return;
  const now = svg.querySelector(".now");
  for (const name of ["x1", "x2"]) now.setAttribute(name, svg.place(state.at));
  host.querySelectorAll("tr[data-ply]").forEach((row) => row.toggleAttribute("aria-current", Number(row.dataset.ply) === state.at));
}

function lineTable(points) {
  const rows = points.map((point) => h("tr", { "data-ply": point.ply }, [
    h("td", {}, h("button", { type: "button", class: "link", text: sayMove(point), onclick: () => go(point.ply) })),
    h("td", { class: "number", text: count(point.n) || "–" }),
    h("td", {}, point.q !== null && h("span", { class: `chip ${tint(point.q)}`, title: `Q ${signed(point.q)}`, text: score(point) })),
    h("td", { text: point.best_san || "" }),
    h("td", { class: "number", text: pawns(point.loss_cp) }),
    h("td", {}, point.loss > 0.001 && bar(`lost ${pawns(point.loss_cp)}`, ["loss", Math.min(1, point.loss)])),
  ]));
  const heads = ["Move", "Visits", "Score", "Best", "Loss", "Loss drawn"].map((text) => h("th", { scope: "col", class: ["Visits", "Loss"].includes(text) ? "number" : null }, h("span", { class: text === "Loss drawn" ? "hidden" : null, text })));
  return h("div", { class: "scroll line-table" }, h("table", { class: "data" }, h("caption", { class: "hidden", text: "Values along the line" }), h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)));
}

// ------------------------------------------------------------ the icicle
function drawIcicle(host, found, base) {
  const { tree, depth } = found;
  if (!tree.branches.length) { put(host, h("p", { class: "note", text: "No move of this position has enough visits." })); return; }
  const [width, step, gap] = [1000, 30, 2];
  const svg = s("svg", { class: "icicle", viewBox: `0 0 ${width} ${depth * step}`, role: "group", "aria-label": "Share of visits per move, ply by ply" });
  const total = tree.branches.reduce((sum, branch) => sum + branch.n, 0);
  const draw = (branch, x, w, level, line, fen) => {
    const worth = forWhite(branch, fen);
    const moves = [...line, branch.move];
    const name = branch.san + (branch.transposes_to ? " ⇄" : "");
    const share = `${name}: ${percent(branch.n / total)} of the visits, ${count(branch.n)}; ${score(worth)}${branch.transposes_to ? `; goes on at ${branch.transposes_to.join(" ")}` : ""}`;
    const cell = s("g", { class: "cell", tabindex: w > 14 ? 0 : null, role: "link", "aria-label": share }, s("title", { text: share }),
      s("rect", { class: tint(worth.q), x: x + gap / 2, y: level * step, width: Math.max(0.5, w - gap), height: step - gap, rx: 2 }),
      w > 26 && s("text", { x: x + w / 2, y: level * step + step / 2 + 3, "text-anchor": "middle", text: fits(name, w) }));
    const visit = () => open({ root: base.root, line: [...base.line, ...moves] });
    cell.addEventListener("click", visit);
    cell.addEventListener("keydown", (event) => { if (event.key === "Enter") visit(); });
    if (level === 0) { cell.addEventListener("mouseenter", () => tell("hover", branch.move)); cell.addEventListener("mouseleave", () => tell("hover", null)); }
    svg.append(cell);
    let at = x;
    const below = branch.branches.reduce((sum, each) => sum + each.n, 0);
    for (const each of branch.branches) {
      const part = w * Math.min(each.n / branch.n, each.n / Math.max(1, below));
      if (part > 1.5 && level + 1 < depth) draw(each, at, part, level + 1, moves, branch.position);
      at += part;
    }
  };
  let x = 0;
  for (const branch of tree.branches) { draw(branch, x, (width * branch.n) / total, 0, [], tree.position); x += (width * branch.n) / total; }
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
  put(host, searched.length > 0 && historyCurve(searched, evaluators), searched.length > 0 && h("p", { class: "note", text: "Q from White's view against visits, at every save; a ring where the best move changed, a line where another evaluator takes over." }), historyTable(points));
}

function historyCurve(points, evaluators) {
  const [low, high] = [Math.log10(Math.max(1, Math.min(...points.map((point) => point.n)))) - 0.1, Math.log10(Math.max(1, ...points.map((point) => point.n))) + 0.1];
  const x = (n) => LEFT + ((Math.log10(Math.max(1, n)) - low) / (high - low)) * (WIDTH - LEFT - RIGHT);
  const range = rangeOf(points.map((point) => point.q));
  const y = heightOf(range);
  const svg = s("svg", { class: "curve", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Q of the root against its visits, over all runs" });
  axes(svg, y, range, [`+${range}`, `−${range}`]);
  for (let power = Math.ceil(low); power <= high; power += 1) svg.append(s("text", { class: "tick", x: x(10 ** power), y: HEIGHT - 6, "text-anchor": "middle", text: count(10 ** power) }));
  svg.append(s("path", { class: "trail", d: points.map((point, k) => `${k ? "L" : "M"}${x(point.n).toFixed(1)},${y(point.q).toFixed(1)}`).join("") }));
  let evaluator = points[0].evaluator;
  for (const point of points) {
    if (point.evaluator !== null && point.evaluator !== evaluator) {
      evaluator = point.evaluator;
      svg.append(s("line", { class: "grid", x1: x(point.n), x2: x(point.n), y1: TOP, y2: HEIGHT - BOTTOM }), s("text", { class: "tick", x: x(point.n) - 4, y: HEIGHT - BOTTOM - 6, "text-anchor": "end", text: evaluators[evaluator] || "" }));
    }
    svg.append(s("circle", { class: point.changed ? "dot mistake" : "dot", cx: x(point.n), cy: y(point.q), r: point.changed ? 5 : 3 }, s("title", { text: `${count(point.n)} visits, ${score(point)}, run ${point.run}, ${when(point.saved)}: ${point.line.join(" ") || point.best_san || "–"}` })));
    if (point.changed && point.best_san) svg.append(s("text", { class: "tick", x: x(point.n), y: y(point.q) - 9, "text-anchor": "middle", text: point.best_san }));
  }
  return svg;
}

// the last save of each run and book, and every change of the best move
function historyTable(points) {
  const last = new Map(points.map((point) => [`${point.run} ${point.book}`, point]));
  const shown = points.filter((point) => point.changed || last.get(`${point.run} ${point.book}`) === point);
  const rows = shown.map((point) => [when(point.saved), point.run, point.book ? `book ${point.book}` : point.kind || "", point.n, h("span", { class: `chip ${tint(point.q)}`, title: `Q ${signed(point.q)}`, text: score(point) }),
    point.win === null ? "" : point.wdl.map((part) => Math.round(100 * part)).join(" "), point.depth ?? "", `${point.best_san || ""}${point.changed ? " *" : ""}`, point.line.join(" ")]);
  return table(["Saved (UTC)", "Run", "Kind", "Visits", "Score", "W D L", "Depth", "Best", "Line"], rows, { caption: "The last save of each run, and changes of the best move (*)" });
}
