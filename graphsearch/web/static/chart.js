// Charts of values: the axes go from the least value to the greatest, with round numbers.

import { s, signed } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [760, 220, 46, 14, 12, 26];
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
export function powers(low, high) {
  const found = [];
  const factors = high / low > 1000 ? [1] : [1, 2, 5];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) found.push(...factors.map((each) => each * power));
  const inside = found.filter((each) => each >= low && each <= high);
  return inside.length > 1 ? inside : ticks(low, high, 5);
}

const pawnsText = (value, digits) => (value === 0 ? "0" : signed(value, digits));

// across: from, to, [[place, text]] of the labels, a scale; up: the values, the least span of the axis, its labels
export function chart(label, { from, to, labels, scale = (value) => value }, { values, least = LEAST_PAWNS, text = pawnsText }) {
  const [lowest, greatest] = [Math.min(...values), Math.max(...values)];
  const half = Math.max(least / 2, 0.54 * (greatest - lowest));
  const [low, high] = [(lowest + greatest) / 2 - half, (lowest + greatest) / 2 + half];
  const [begin, end] = [scale(from), scale(to)];
  const x = (value) => LEFT + ((scale(value) - begin) / (end - begin || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const svg = s("svg", { class: "curve", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  const round = ticks(low, high, 5);
  const digits = Math.max(0, -Math.floor(Math.log10((round[1] ?? high) - round[0]) + 1e-9));
  for (const each of round.map((value) => (Math.abs(value) < 1e-9 ? 0 : value))) {
    svg.append(s("line", { class: each === 0 ? "axis" : "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(each), y2: y(each) }), s("text", { class: "tick at-y", x: LEFT - 6, y: y(each) + 4, "text-anchor": "end", text: text(each, digits) }));
  }
  for (const [place, name] of labels) svg.append(s("text", { class: "tick at-x", x: x(place), y: HEIGHT - 6, "text-anchor": "middle", text: name }));
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    const share = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    return from + Math.max(0, Math.min(1, share)) * (to - from);
  };
  return { svg, x, y, at, floor: y(Math.max(low, Math.min(high, 0))), top: TOP, bottom: HEIGHT - BOTTOM };
}

// the path through points [[x, y]]; with a floor the area between them and it
export function pathOf(points, floor = null) {
  const line = points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
  return floor === null ? line : `${line}L${points.at(-1)[0].toFixed(1)},${floor}L${points[0][0].toFixed(1)},${floor}Z`;
}

// a curve along a game from ply `first`: `points` are [plies from there, value]; `mark(plies)` shows where one is; `onGo(plies)` for a click
export function gameChart(label, first, plies, points, up, onGo) {
  const last = Math.max(1, plies);
  const { svg, x, y, at, floor, top, bottom } = chart(label, { from: 0, to: last, labels: plyLabels(first, last) }, { values: points.map(([, value]) => value), ...up });
  const places = points.map(([ply, value]) => [x(ply), y(value)]);
  if (points.length > 1) svg.append(s("path", { class: "under", d: pathOf(places, floor) }), s("path", { class: "trail", d: pathOf(places) }));
  const now = s("line", { class: "now", y1: top, y2: bottom });
  svg.append(now);
  svg.addEventListener("click", (event) => onGo(Math.round(at(event))));
  const mark = (ply) => { now.toggleAttribute("hidden", ply === null); for (const name of ["x1", "x2"]) now.setAttribute(name, x(ply ?? 0)); };
  return { svg, x, y, mark };
}

// labels for the plies of a game: numbers of moves
function plyLabels(first, plies) {
  return ticks(first, first + Math.max(2, plies), 10).filter((ply) => ply % 2 === 0 && ply <= first + plies).map((ply) => [ply - first, String(ply / 2 + 1)]);
}
