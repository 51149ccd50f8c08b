// The neighbourhood of the position in layers: every position once, with all its ways in.

import { ask, latest } from "./api.js";
import { key } from "./values.js";
import { chip, count, h, link, percent, put, s, signed, table, tint, visited } from "./dom.js";
import { menOf } from "./chess.js";
import { layered } from "./layers.js";
import { here, open, played, state, tell } from "./state.js";

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
      last(ask("neighbourhood", asked), (found) => draw(picture, found, base), (error) => put(picture, h("p", { class: "note", text: error.message })));
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

// ------------------------------------------------------------ the picture
function draw(host, found, base) {
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
  put(host, box, h("p", { class: "note" }, `${count(all.length)} positions, ${count(edges.length)} moves, ${count(transpositions)} transpositions (dashed ring); ${count(found.hidden)} visited moves are hidden. Size and width: N. Colour: Q for White, `, key()));
  box.scrollLeft = scale * nodes.get(0).x - box.clientWidth / 2;
}

function drawEdge(edge, most) {
  const { parent, child, main } = edge;
  const down = child.level > parent.level;
  const bend = down ? ROW * 0.45 : -ROW * 0.6;
  const [from, to] = [parent.y + (down ? parent.radius : -parent.radius), child.y - child.radius];
  const about = `${edge.san}: ${count(edge.n)} visits, White's Q ${signed(edge.white_q)}`;
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
  const about = `${node.position.split(" ").slice(0, 2).join(" ")}: ${count(node.n) || "no"} visits, White's Q ${signed(node.white_q)}, ${ways} ways in`;
  const shown = signed(node.white_q, 2);
  const name = ["node", node.level === 0 && "root", ways > 1 && "shared"].filter(Boolean).join(" ");
  const visit = () => open({ root: base.root, line: [...base.line, ...route.map((edge) => edge.move)] });
  const lit = (on) => {
    for (const { path, label, parent, child } of edges) [path, label].forEach((each) => each.classList.toggle("dim", on && child !== node && parent !== node));
    tell("preview", on ? { men: menOf(node.position), last: route.at(-1)?.move } : null);
  };
  return s("g", { class: name, tabindex: "0", role: "link", "aria-label": `${sans || "this position"}: ${shown}. ${about}`, ...visited(visit), onmouseenter: () => lit(true), onmouseleave: () => lit(false) },
    s("title", { text: `${sans}\n${about}` }), s("circle", { class: node.white_q === null ? "qp0" : tint(node.white_q), cx: x, cy: y, r: radius }), radius > 15 && s("text", { x, y: y + 3.5, text: shown }));
}

// ------------------------------------------------------------ ways in
function drawWays(host, found, way) {
  const rows = found.parents.map((parent) => [h("button", { type: "button", class: "move", text: parent.san, title: `Go to ${parent.position}`, onclick: () => bestWay(parent) }),
    parent.n, percent(parent.p), chip(parent, parent.position), parent.visits, link(parent.position, () => open({ root: parent.position, line: [] }))]);
  put(host, table(["Move", "Visits", "P", "Score", "Visits before", "From"], rows, { caption: "Ways into this position", empty: "No stored position leads here." }),
    way?.line.length > 0 && h("p", {}, h("b", { text: "A line from a root: " }), link(way.line.join(" "), () => open(way))));
}

// a line from a root through a parent, then its move here
async function bestWay(parent) {
  const { lines: [found] } = await ask("way", { root: parent.position }).catch(() => ({ lines: [] }));
  open({ root: found?.root ?? parent.position, line: [...(found?.line ?? []), parent.move] });
}
