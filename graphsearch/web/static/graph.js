// The neighbourhood of the position in layers: every position once, with all its ways in.

import { ask, latest } from "./api.js";
import { key } from "./values.js";
import { chip, count, h, link, percent, put, s, signed, table, tint } from "./dom.js";
import { menOf } from "./chess.js";
import { layered } from "./layers.js";
import { here, open, played, state, tell } from "./state.js";

const kept = { depth: 4, share: 6, most: 120 };
const SHARES = [0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0001]; // of the root's N
const [COLUMN, ROW, MARGIN, SMALLEST, LARGEST, LEAST_SCALE] = [54, 92, 34, 9, 24, 0.72];

export const graphView = {
  name: "graph",
  make(host) {
    const last = latest();
    const picture = h("div", {});
    const ways = h("div", {});
    const show = () => {
      const n = state.look?.node?.visits || 1;
      const asked = { ...here(), depth: kept.depth, min_visits: Math.max(1, Math.round(n * SHARES[kept.share - 1])), most: kept.most };
      const base = { root: state.root, line: played(), position: state.look?.position };
      last(ask("neighbourhood", asked), (found) => draw(picture, arranged(found), base), (error) => put(picture, h("p", { class: "note", text: error.message })));
    };
    const waysIn = waysView(ways);
    put(host, h("div", { class: "row sliders" }, slider("depth", "Plies", 1, 10, show), slider("share", "Few visits", 1, SHARES.length, show, (value) => `≥ ${percent(SHARES[value - 1], 2)}`), slider("most", "Positions", 20, 300, show)),
      picture, h("h2", { text: "Ways into this position" }), ways);
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
// the positions level by level, each level from left to right
function arranged({ nodes, edges, hidden }) {
  const ways = [...edges].sort((one, other) => other.n - one.n).map((edge) => ({ ...edge, from: edge.parent, to: edge.child }));
  const stand = layered(0, ways);
  const order = [...stand.keys()].sort((one, other) => stand.get(one).level - stand.get(other).level || stand.get(one).place - stand.get(other).place);
  const at = new Map(order.map((number, k) => [number, k]));
  return { hidden, nodes: order.map((number) => ({ ...nodes[number], ...stand.get(number) })), edges: ways.map((edge) => ({ ...edge, parent: at.get(edge.parent), child: at.get(edge.child) })) };
}

function draw(host, found, base) {
  const { nodes, edges } = found;
  const place = (node) => [MARGIN + node.place * COLUMN, MARGIN + node.level * ROW];
  const width = Math.max(...nodes.map((node) => node.place)) * COLUMN + 2 * MARGIN;
  const height = Math.max(...nodes.map((node) => node.level)) * ROW + 2 * MARGIN;
  const scale = Math.min(1, Math.max(LEAST_SCALE, (host.clientWidth - 4) / width)); // it fits, as far as it stays legible
  const most = Math.max(1, ...nodes.map((node) => node.n || 0));
  const radius = nodes.map((node) => SMALLEST + (LARGEST - SMALLEST) * Math.sqrt((node.n || 0) / most));
  const ways = nodes.map(() => 0);
  edges.forEach((edge) => { ways[edge.child] += 1; });
  const transpositions = ways.filter((number) => number > 1).length;
  const svg = s("svg", { class: "graph-svg", viewBox: `0 0 ${width} ${height}`, width: width * scale, height: height * scale, role: "group", "aria-label": `${nodes.length} positions, ${transpositions} with several ways in` });
  const routes = routesOf(found);
  const drawn = edges.map((edge) => edgeOf(edge, nodes, place, radius, most));
  svg.append(s("g", {}, drawn.map((each) => each.path)), s("g", {}, drawn.map((each) => each.label)));
  nodes.forEach((node, k) => svg.append(nodeOf(node, k, { place, radius, ways, route: routes[k], svg, drawn, edges, base })));
  const box = h("div", { class: "graph-box", tabindex: "0", role: "region", "aria-label": "Graph" }, svg);
  put(host, box, h("p", { class: "note" }, `${count(nodes.length)} positions, ${count(edges.length)} moves, ${count(transpositions)} transpositions (dashed ring); ${count(found.hidden)} visited moves are hidden. Size and width: N. Colour: Q for White, `, key()));
  const root = nodes.findIndex((node) => node.level === 0);
  box.scrollLeft = scale * place(nodes[root])[0] - box.clientWidth / 2;
}

function edgeOf(edge, nodes, place, radius, most) {
  const [[x1, y1], [x2, y2]] = [place(nodes[edge.parent]), place(nodes[edge.child])];
  const down = nodes[edge.child].level > nodes[edge.parent].level;
  const bend = down ? ROW * 0.45 : -ROW * 0.6;
  const [from, to] = [y1 + (down ? radius[edge.parent] : -radius[edge.parent]), y2 - radius[edge.child]];
  const about = `${edge.san}: ${count(edge.n)} visits, White's Q ${signed(edge.white_q)}`;
  const path = s("path", { class: edge.main ? "edge best" : "edge", d: `M${x1},${from}C${x1},${from + bend} ${x2},${to - ROW * 0.45} ${x2},${to}`, "stroke-width": (0.8 + 7 * Math.sqrt(edge.n / most)).toFixed(2) }, s("title", { text: about }));
  const t = edge.main ? 0.62 : 0.38;
  const label = s("text", { class: "edge-label", x: x1 + (x2 - x1) * t, y: from + (to - from) * t + 3, text: edge.san });
  return { path, label };
}

function nodeOf(node, k, { place, radius, ways, route, svg, drawn, edges, base }) {
  const [x, y] = place(node);
  const about = `${node.position.split(" ").slice(0, 2).join(" ")}: ${count(node.n) || "no"} visits, White's Q ${signed(node.white_q)}, ${ways[k]} ways in`;
  const shown = signed(node.white_q, 2);
  const name = ["node", node.level === 0 && "root", ways[k] > 1 && "shared"].filter(Boolean).join(" ");
  const group = s("g", { class: name, tabindex: "0", role: "link", "aria-label": `${route.sans.join(" ") || "this position"}: ${shown}. ${about}` }, s("title", { text: `${route.sans.join(" ")}\n${about}` }),
    s("circle", { class: node.white_q === null ? "qp0" : tint(node.white_q), cx: x, cy: y, r: radius[k] }),
    radius[k] > 15 && s("text", { x, y: y + 3.5, text: shown }));
  const visit = () => open({ root: base.root, line: [...base.line, ...route.moves] });
  const lit = (on) => drawn.forEach(({ path, label }, j) => {
    const mine = edges[j].child === k || edges[j].parent === k;
    path.classList.toggle("dim", on && !mine);
    label.classList.toggle("dim", on && !mine);
  });
  group.addEventListener("click", visit);
  group.addEventListener("keydown", (event) => { if (event.key === "Enter") visit(); });
  group.addEventListener("mouseenter", () => { lit(true); tell("preview", { men: menOf(node.position), last: route.moves.at(-1) }); });
  group.addEventListener("mouseleave", () => { lit(false); tell("preview", null); });
  svg.dataset.nodes = String(k + 1);
  return group;
}

// how each position is reached from the first one, over its most visited ways in
function routesOf({ nodes, edges }) {
  const main = new Map(edges.filter((edge) => edge.main).map((edge) => [edge.child, edge]));
  const routes = nodes.map(() => null);
  const route = (k) => {
    if (routes[k]) return routes[k];
    const edge = main.get(k);
    const before = edge && nodes[k].level ? route(edge.parent) : { moves: [], sans: [] };
    routes[k] = edge && nodes[k].level ? { moves: [...before.moves, edge.move], sans: [...before.sans, edge.san] } : before;
    return routes[k];
  };
  return nodes.map((_, k) => route(k));
}

// ------------------------------------------------------------ ways in
function waysView(host) {
  const [last, lastWay] = [latest(), latest()];
  const way = h("div", {});
  return () => {
    put(way);
    last(ask("parents", here()), (found) => drawWays(host, found, way), (error) => put(host, h("p", { class: "note", text: error.message })));
    lastWay(ask("way", here()), ({ lines: [found] }) => drawWay(way, found), () => put(way));
  };
}

function drawWays(host, found, way) {
  const rows = found.parents.map((parent) => [h("button", { type: "button", class: "move", text: parent.san, title: `Go to ${parent.position}`, onclick: () => bestWay(parent) }),
    parent.n, percent(parent.p), chip(parent, parent.position), parent.visits, link(parent.position, () => open({ root: parent.position, line: [] }))]);
  put(host, table(["Move", "Visits", "P", "Score", "Visits before", "From"], rows, { caption: "Ways into this position", empty: "No stored position leads here." }), way);
}

// a line from a root through a parent, then its move here
async function bestWay(parent) {
  const { lines: [found] } = await ask("way", { root: parent.position }).catch(() => ({ lines: [] }));
  open({ root: found?.root ?? parent.position, line: [...(found?.line ?? []), parent.move] });
}

function drawWay(host, found) {
  put(host, found?.line.length && h("p", {}, h("b", { text: "A line from a root: " }),
    h("button", { type: "button", class: "link", text: found.line.join(" "), onclick: () => open(found) })));
}
