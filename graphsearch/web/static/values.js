// Values along the line as a curve, the visits below the position as an icicle, the root's history, and the graph around the position.

import { ask, latest } from "./api.js";
import { chip, count, forWhite, h, link, moment, pawns, percent, put, s, score, short, signed, table, tint, visited, when, whiteChip } from "./dom.js";
import { menOf, turnOf } from "./chess.js";
import { layered } from "./layers.js";
import { go, here, open, played, pointed, state, tell, wholeLine } from "./state.js";

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
  const { svg, x, y, mark } = gameChart("Score along the line, from White's side", first, points.length - 1, known.map((point) => [point.ply, heightOf(point)]), go);
  for (const point of known) {
    const move = points[point.ply - 1]; // that led there
    const loss = move?.loss > 0.3 ? "blunder" : move?.loss > 0.15 ? "mistake" : "";
    const about = `${move ? sayMove(move) : "First position"}: ${score(point)}, ${count(point.n)} visits${move?.loss_cp ? `; ${pawns(move.loss_cp)} lost against ${move.best_san}` : ""}`;
    svg.append(s("circle", { class: `dot ${loss}`, cx: x(point.ply), cy: y(heightOf(point)), r: loss ? 5 : points.length > 80 ? 2 : 3.2, "data-ply": point.ply }, s("title", { text: about })));
  }
  svg.mark = mark;
  put(host, svg, h("p", { class: "note", text: "Scores in pawns by move, White's view; click to go there. Large dots: moves that lost more than 0.15 (ring) or 0.3 (full) of Q against the best one." }), lineTable(points));
  markPlace(host);
}

const sayMove = ({ number, turn, san }) => `${number}${turn === "w" ? "." : "…"} ${san}`;

function markPlace(host) {
  const svg = host.querySelector("svg");
  if (!svg?.mark) return;
  svg.mark(state.at);
  host.querySelectorAll("tr[data-ply]").forEach((row) => row.toggleAttribute("aria-current", Number(row.dataset.ply) === state.at));
}

// moves with the visits and the score of the position behind each, as the notation has them
function lineTable(points) {
  const rows = points.slice(1).map((behind, k) => [link(sayMove(points[k]), () => go(behind.ply)), behind.n, behind.q !== null && (points[k].san.endsWith("#") ? "#" : whiteChip(behind)), points[k].best_san, pawns(points[k].loss_cp)]);
  return table(["Move", "Visits", "Score", "Best", "Loss"], rows, { caption: "Values along the line", kind: "line-table", mark(tr, k) { tr.dataset.ply = k + 1; } });
}

// ------------------------------------------------------------ the icicle
const WIDE_CELL = 26; // a cell that keys reach, and that has its move in it

function drawIcicle(host, found, base) {
  const { tree, depth } = found;
  if (!tree.branches.length) { put(host, h("p", { class: "note", text: "No move of this position has enough visits." })); return; }
  const [width, step, gap] = [Math.min(1000, 1.4 * host.clientWidth), 30, 2]; // narrower on a phone: its letters stay legible
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

function key() {
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
  const { svg, x, y, top, bottom } = chart("Score of the root against its visits, over all runs", { from, to, labels, scale: Math.log10 }, points.map(heightOf));
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

// ------------------------------------------------------------ the positions around this one in layers: every one once, with all its ways in
const kept = { depth: 4, share: 6, most: 120 };
const SHARES = [0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0001]; // of the root's N
const [COLUMN, ROW, MARGIN, SMALLEST, LARGEST, LEAST_SCALE] = [54, 92, 34, 9, 24, 0.72];

export const graphView = {
  name: "graph",
  make(host) {
    const [last, lastWays] = [latest(), latest()];
    const picture = h("div", {});
    const ways = h("div", {});
    const show = () => {
      const n = state.look?.node?.visits || 1;
      const asked = { ...here(), depth: kept.depth, min_visits: Math.max(1, Math.round(n * SHARES[kept.share - 1])), most: kept.most };
      const base = { root: state.root, line: played() };
      last(ask("neighbourhood", asked), (found) => drawGraph(picture, found, base), (error) => put(picture, h("p", { class: "note", text: error.message })));
    };
    const waysIn = () => lastWays(Promise.all([ask("parents", here()), ask("way", here()).catch(() => ({ lines: [] }))]), ([found, { lines: [way] }]) => drawWays(ways, found, way),
      (error) => put(ways, h("p", { class: "note", text: error.message })));
    put(host, h("div", { class: "row sliders" }, slider("depth", "Plies", 1, 10, show), slider("share", "Few visits", 1, SHARES.length, show, (value) => `≥ ${percent(SHARES[value - 1], 2)}`), slider("most", "Positions", 20, 300, show)),
      picture, ways);
    const all = () => { show(); waysIn(); };
    return { show: all, on: { position: all, file: show } };
  },
};

function slider(name, label, min, max, act, say = String) {
  const id = `graph-${name}`;
  const value = h("output", { for: id, text: say(kept[name]) });
  const input = h("input", { type: "range", id, min, max, value: kept[name], oninput: () => { kept[name] = Number(input.value); value.textContent = say(kept[name]); }, onchange: act });
  return h("span", { class: "slider" }, h("label", { for: id, text: label }), " ", input, " ", value);
}

function drawGraph(host, found, base) {
  const edges = found.edges.sort((one, other) => other.n - one.n).map((edge) => ({ ...edge, from: edge.parent, to: edge.child }));
  const nodes = new Map([...layered(0, edges)].map(([number, stand]) => [number, { ...found.nodes[number], ...stand, ways: 0 }]));
  const most = Math.max(1, ...found.nodes.map((node) => node.n || 0));
  for (const node of nodes.values()) {
    Object.assign(node, { x: MARGIN + node.place * COLUMN, y: MARGIN + node.level * ROW, radius: SMALLEST + (LARGEST - SMALLEST) * Math.sqrt((node.n || 0) / most) });
  }
  for (const edge of edges) {
    Object.assign(edge, { parent: nodes.get(edge.from), child: nodes.get(edge.to) });
    edge.child.ways += 1;
  }
  const all = [...nodes.values()].sort((one, other) => one.y - other.y || one.x - other.x);
  const [width, height] = [Math.max(...all.map((node) => node.x)) + MARGIN, Math.max(...all.map((node) => node.y)) + MARGIN];
  const scale = Math.min(1, Math.max(LEAST_SCALE, (host.clientWidth - 4) / width)); // it fits, as far as it stays legible
  const transpositions = all.filter((node) => node.ways > 1).length;
  for (const edge of edges) drawEdge(edge, most);
  const svg = s("svg", { class: "graph-svg", viewBox: `0 0 ${width} ${height}`, width: width * scale, height: height * scale, role: "group", "aria-label": `${all.length} positions, ${transpositions} with several ways in` },
    s("g", {}, edges.map((edge) => edge.path)), s("g", {}, edges.map((edge) => edge.label)), all.map((node) => nodeOf(node, edges, base)));
  const box = h("div", { class: "graph-box", tabindex: "0", role: "region", "aria-label": "Graph" }, svg);
  put(host, box, h("p", { class: "note" }, `${count(all.length)} positions, ${count(edges.length)} moves, ${count(transpositions)} transpositions (dashed ring); ${count(found.hidden)} visited moves are hidden. Size and width: N. Numbers: pawns, White's view. Colour: Q for White, `, key()));
  box.scrollLeft = scale * nodes.get(0).x - box.clientWidth / 2;
}

function drawEdge(edge, most) {
  const { parent, child, main } = edge;
  const down = child.level > parent.level;
  const bend = down ? ROW * 0.45 : -ROW * 0.6;
  const [from, to] = [parent.y + (down ? parent.radius : -parent.radius), child.y - child.radius];
  const about = `${edge.san}: ${count(edge.n)} visits`;
  const t = main ? 0.62 : 0.38;
  edge.path = s("path", { class: main ? "edge best" : "edge", d: `M${parent.x},${from}C${parent.x},${from + bend} ${child.x},${to - ROW * 0.45} ${child.x},${to}`, "stroke-width": (0.8 + 7 * Math.sqrt(edge.n / most)).toFixed(2) }, s("title", { text: about }));
  edge.label = s("text", { class: "edge-label", x: parent.x + (child.x - parent.x) * t, y: from + (to - from) * t + 3, text: edge.san });
}

// the moves to a position from the first one, over its most visited ways in
const routeTo = (node) => (node.main ? [...routeTo(node.main.parent), node.main] : []);

function nodeOf(node, edges, base) {
  const { x, y, radius, ways } = node;
  const route = routeTo(node);
  const sans = route.map((edge) => edge.san).join(" ");
  const about = `${node.position.split(" ").slice(0, 2).join(" ")}: ${node.n ? count(node.n) : "no"} visits, ${ways} ways in`;
  const white = forWhite(node, node.position), shown = score(white);
  const name = ["node", node.level === 0 && "root", ways > 1 && "shared"].filter(Boolean).join(" ");
  const visit = () => open({ root: base.root, line: [...base.line, ...route.map((edge) => edge.move)] });
  const lit = (on) => {
    for (const { path, label, parent, child } of edges) [path, label].forEach((each) => each.classList.toggle("dim", on && child !== node && parent !== node));
    tell("preview", on ? { men: menOf(node.position), last: route.at(-1)?.move } : null);
  };
  return s("g", { class: name, tabindex: "0", role: "link", "aria-label": `${sans || "this position"}: ${shown}. ${about}`, ...visited(visit), onmouseenter: () => lit(true), onmouseleave: () => lit(false) },
    s("title", { text: `${sans}\n${about}` }), s("circle", { class: tint(white.q), cx: x, cy: y, r: radius }), radius > 15 && s("text", { x, y: y + 3.5, text: shown }));
}

function drawWays(host, found, way) {
  const rows = found.parents.map((parent) => [h("button", { type: "button", class: "move", text: parent.san, title: `Go to ${parent.position}`, onclick: () => bestWay(parent) }),
    parent.n || "–", percent(parent.p), chip(parent, parent.position), parent.visits, link(parent.position, () => open({ root: parent.position, line: [] }))]);
  put(host, table(["Move", "Visits", "P", "Score", "Visits before", "From"], rows, { caption: "Ways into this position", empty: "No stored position leads here." }),
    way?.line.length > 0 && h("p", {}, h("b", { text: "A line from a root: " }), link(way.line.join(" "), () => open(way))));
}

// a line from a root through a parent, then its move here
async function bestWay(parent) {
  const { lines: [found] } = await ask("way", { root: parent.position }).catch(() => ({ lines: [] }));
  open({ root: found?.root ?? parent.position, line: [...(found?.line ?? []), parent.move] });
}

// ------------------------------------------------------------ charts: the axes go from the least value to the greatest, with round numbers
const [WIDEST, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [760, 220, 46, 14, 12, 26];
const MOST_PAWNS = 10; // at which a mate is drawn, and all that is greater
const LEAST_PAWNS = 0.2; // that an axis spans

// White's value of a point as a height: pawns, a mate being many
export const heightOf = ({ cp, mate }) => (mate ? Math.sign(mate) * MOST_PAWNS : Math.max(-MOST_PAWNS, Math.min(MOST_PAWNS, cp / 100)));

// round numbers from low to high, `most` of them at most
function ticks(low, high, most) {
  const size = 10 ** Math.floor(Math.log10((high - low) / most));
  const step = [1, 2, 5, 10].map((each) => each * size).find((each) => (high - low) / each <= most);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) found.push(k * step);
  return found;
}

// round numbers on a logarithmic axis: powers of ten, or 1, 2 and 5 times each
function powers(low, high) {
  const found = [];
  const factors = high / low > 1000 ? [1] : [1, 2, 5];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) found.push(...factors.map((each) => each * power));
  const inside = found.filter((each) => each >= low && each <= high);
  return inside.length > 1 ? inside : ticks(low, high, 5);
}

// across: from, to, [[place, text]] of the labels, a scale; up: the values in pawns
function chart(label, { from, to, labels, scale = (value) => value }, values) {
  const width = Math.min(WIDEST, document.getElementById("panel").clientWidth); // letters keep their size on a phone
  const [lowest, greatest] = [Math.min(...values), Math.max(...values)];
  const half = Math.max(LEAST_PAWNS / 2, 0.54 * (greatest - lowest));
  const [low, high] = [(lowest + greatest) / 2 - half, (lowest + greatest) / 2 + half];
  const [begin, end] = [scale(from), scale(to)];
  const x = (value) => LEFT + ((scale(value) - begin) / (end - begin || 1)) * (width - LEFT - RIGHT);
  const y = (value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const svg = s("svg", { class: "curve", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
  const round = ticks(low, high, 5);
  const digits = Math.max(0, -Math.floor(Math.log10((round[1] ?? high) - round[0]) + 1e-9));
  for (const each of round.map((value) => (Math.abs(value) < 1e-9 ? 0 : value))) {
    svg.append(s("line", { class: each === 0 ? "axis" : "grid", x1: LEFT, x2: width - RIGHT, y1: y(each), y2: y(each) }), s("text", { class: "tick at-y", x: LEFT - 6, y: y(each) + 4, "text-anchor": "end", text: each === 0 ? "0" : signed(each, digits) }));
  }
  for (const [place, name] of labels) svg.append(s("text", { class: "tick at-x", x: x(place), y: HEIGHT - 6, "text-anchor": "middle", text: name }));
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    const share = (((event.clientX - box.left) / box.width) * width - LEFT) / (width - LEFT - RIGHT);
    return from + Math.max(0, Math.min(1, share)) * (to - from);
  };
  return { svg, x, y, at, floor: y(Math.max(low, Math.min(high, 0))), top: TOP, bottom: HEIGHT - BOTTOM };
}

// the path through points [[x, y]]; with a floor the area between them and it
function pathOf(points, floor = null) {
  const line = points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
  return floor === null ? line : `${line}L${points.at(-1)[0].toFixed(1)},${floor}L${points[0][0].toFixed(1)},${floor}Z`;
}

// a curve along a game from ply `first`: `points` are [plies from there, value]; `mark(plies)` shows where one is; `onGo(plies)` for a click
export function gameChart(label, first, plies, points, onGo) {
  const last = Math.max(1, plies);
  const { svg, x, y, at, floor, top, bottom } = chart(label, { from: 0, to: last, labels: plyLabels(first, last) }, points.map(([, value]) => value));
  const places = points.map(([ply, value]) => [x(ply), y(value)]);
  if (points.length > 1) svg.append(s("path", { class: "under", d: pathOf(places, floor) }), s("path", { class: "trail", d: pathOf(places) }));
  const now = s("line", { class: "now", y1: top, y2: bottom });
  svg.append(now);
  svg.addEventListener("click", (event) => onGo(Math.round(at(event))));
  const mark = (ply) => { now.toggleAttribute("hidden", ply === null); for (const name of ["x1", "x2"]) now.setAttribute(name, x(ply ?? 0)); };
  return { svg, x, y, mark };
}

function plyLabels(first, plies) {
  return ticks(first, first + Math.max(2, plies), 10).filter((ply) => ply % 2 === 0 && ply <= first + plies).map((ply) => [ply - first, String(ply / 2 + 1)]);
}
