// The views of a position: its moves, the picture of what follows, the ways in, and the values along a line.

const BOX = { width: 104, height: 36, across: 190, down: 48, margin: 16, head: 7 };

// ------------------------------------------------------------ moves
const COLUMNS = [
  { name: "Move", key: (move) => move.san, show: (move) => el("b", {}, move.san), text: true },
  { name: "Score", key: (move) => move.cp ?? -1e9, show: (move) => pawns(forWhite(move, move.cp)), about: "in pawns, White's view" },
  { name: "Visits", key: (move) => move.n, show: (move, most) => barred(count(move.n), most.n ? move.n / most.n : 0) },
  { name: "P", key: (move) => move.p ?? -1, show: (move) => percent(move.p), about: "prior of the evaluator" },
  { name: "Q", key: (move) => move.q ?? -2, show: (move) => signed(forWhite(move, move.q)), about: "expected result, White's view" },
  { name: "Value", key: (move) => move.value ?? -2, show: (move) => signed(forWhite(move, move.value)), about: "Q in the book, White's view", book: true },
  { name: "Why", key: (move) => move.rule, show: (move) => move.rule, text: true, about: "the rule that took it into the book", book: true },
];

function barred(text, share) {
  return el("span", { class: "barred" }, el("span", { class: "bar", style: `width:${(100 * share).toFixed(1)}%` }), el("span", {}, text));
}

function movesTable(position, sorting, { go, point, sort }) {
  const columns = COLUMNS.filter((column) => SITE.book || !column.book);
  const rows = [...position.moves];
  const chosen = columns.find((column) => column.name === sorting.column);
  if (chosen) {
    const sign = sorting.down ? -1 : 1;
    rows.sort((one, other) => sign * (chosen.key(one) < chosen.key(other) ? -1 : chosen.key(one) > chosen.key(other) ? 1 : 0));
  }
  const most = { n: Math.max(0, ...rows.map((move) => move.n)) };
  const head = columns.map((column) => el("th", {
    scope: "col", class: column.text ? "text" : "", title: column.about,
    "aria-sort": column === chosen ? (sorting.down ? "descending" : "ascending") : "none",
  }, el("button", { type: "button", onclick: () => sort(column) }, column.name)));
  const body = rows.map((move) => el("tr", {
    class: move.child >= 0 ? "leads" : "", onclick: () => go(move), onmouseenter: () => point(move), onmouseleave: () => point(null),
  }, ...columns.map((column, k) => el("td", { class: column.text ? "text" : "" },
    k || move.child < 0 ? column.show(move, most) : el("button", { type: "button", class: "move", onfocus: () => point(move) }, column.show(move, most))))));
  if (!rows.length) return el("p", { class: "empty" }, position.note || "No move of this position is in the site.");
  return el("table", { class: "moves" }, el("caption", { class: "hidden" }, "Moves"), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
}

// ------------------------------------------------------------ ways in
async function waysList(position, go) {
  if (!position.ways.length) return el("p", { class: "empty" }, "No move of the site leads here.");
  const items = [];
  for (const way of position.ways) {
    const before = await positionOf(way.from);
    const { steps } = await pathTo(way.from);
    const line = lineText([...steps, { san: way.san }], (await positionOf(SITE.roots[0])).fen);
    items.push(el("li", {}, el("button", { type: "button", onclick: () => go(way.from) }, `${numberOf(before.fen)} ${way.san}`),
      el("span", { class: "quiet" }, ` N ${count(way.n)} \u00b7 ${line}`)));
  }
  return el("ul", { class: "ways" }, ...items);
}

// ------------------------------------------------------------ the picture
function picture({ nodes, edges }, room, go) {
  const all = [...nodes.values()];
  const corner = (node) => [BOX.margin + BOX.across * node.level, BOX.margin + BOX.down * node.place];
  const wide = 2 * BOX.margin + BOX.width + BOX.across * Math.max(...all.map((node) => node.level)) + 40;
  const tall = 2 * BOX.margin + BOX.height + BOX.down * Math.max(...all.map((node) => node.place));
  const most = Math.max(0, ...edges.map((edge) => edge.move.n));
  const labels = [];
  const lines = edges.map((edge) => {
    const [from, to] = [nodes.get(edge.from), nodes.get(edge.to)];
    const q = forWhite(edge.move, edge.move.value ?? edge.move.q);
    const paint = colour(q ?? 0, edgeEven());
    const bend = curve(corner(from), corner(to), to.level > from.level, from.level - to.level);
    if (!edge.main) labels.push(svg("text", { class: "edge-name", x: bend.label[0], y: bend.label[1] + 4 }, edge.move.san));
    const about = `${edge.move.san}: ${count(edge.move.n)} visits, Q ${signed(q)} for White`;
    return svg("g", {}, svg("title", {}, about),
      svg("path", { d: bend.line, fill: "none", stroke: paint, "stroke-width": widthOf(edge.move.n, most).toFixed(1), "stroke-dasharray": to.level > from.level ? null : "6 4" }),
      svg("path", { d: bend.head, fill: paint }));
  });
  const scale = Math.min(1, Math.max(0.6, room / wide));
  return svg("svg", { class: "picture", width: wide * scale, height: tall * scale, viewBox: `0 0 ${wide} ${tall}`, role: "group", "aria-label": "Graph of the positions that follow" },
    ...lines, ...all.map((node) => box(node, nodes, corner(node), go)), ...labels);
}

function curve([px, py], [cx, cy], ahead, back) {
  const [x1, y1, y2] = [px + BOX.width, py + BOX.height / 2, cy + BOX.height / 2];
  const x2 = ahead ? cx : cx + BOX.width;
  const head = ahead ? -BOX.head : BOX.head;
  const bend = ahead ? (x2 - x1) / 2 : 60 + 12 * back;
  const [b, c] = [x1 + bend, ahead ? x2 - bend : x2 + bend];
  const on = (p, q, r, s, t = 0.72) => (1 - t) ** 3 * p + 3 * t * (1 - t) ** 2 * q + 3 * t * t * (1 - t) * r + t ** 3 * s;
  return {
    line: `M${x1} ${y1}C${b} ${y1} ${c + head} ${y2} ${x2 + head} ${y2}`,
    head: `M${x2} ${y2}l${head} 4.5v-9z`,
    label: [on(x1, b, c, x2), on(y1, y1, y2, y2)],
  };
}

function box(node, nodes, [x, y], go) {
  const { position, main } = node;
  const paint = colour(position.whiteQ, nodeEven());
  const head = main ? `${numberOf(nodes.get(main.from).position.fen)} ${main.move.san}` : "here";
  const numbers = [position.n === null ? "" : count(position.n), signed(position.whiteQ, 2)].filter(Boolean).join("  ");
  const visit = (event) => { if (event.type === "click" || event.key === "Enter") go(position.number); };
  return svg("g", { class: main ? "box" : "box here", tabindex: 0, role: "link", "aria-label": `${head}, ${numbers}`, onclick: visit, onkeydown: visit, fill: ink(paint) },
    svg("title", {}, `${position.fen}  ${numbers}`),
    svg("rect", { x, y, width: BOX.width, height: BOX.height, rx: 6, fill: paint }),
    svg("text", { x: x + BOX.width / 2, y: y + 15, class: "head" }, head),
    svg("text", { x: x + BOX.width / 2, y: y + 29, class: "numbers" }, numbers));
}

// ------------------------------------------------------------ values
// points: positions along a line; the first `played` were played, the others are the best moves from there
function valuesPlot(points, played, wide, go) {
  const [tall, left, right, top, bottom] = [140, 48, 22, 10, 22];
  const known = points.map((point, k) => ({ k, q: point.whiteQ })).filter((point) => point.q !== null);
  const reach = [0.1, 0.2, 0.5, 1].find((scale) => known.every((point) => Math.abs(point.q) <= scale)) ?? 1;
  const x = (k) => left + (k * (wide - left - right)) / Math.max(1, points.length - 1);
  const y = (q) => top + ((1 - q / reach) / 2) * (tall - top - bottom);
  const grid = [-reach, -reach / 2, 0, reach / 2, reach].flatMap((q) => [
    svg("line", { class: q ? "grid" : "grid zero", x1: left, x2: wide - right, y1: y(q), y2: y(q) }),
    svg("text", { class: "scale", x: left - 6, y: y(q) + 4, "text-anchor": "end" }, signed(q, 2)),
  ]);
  const path = (some) => some.map((point, i) => `${i ? "L" : "M"}${x(point.k).toFixed(1)} ${y(point.q).toFixed(1)}`).join("");
  const dots = known.map((point) => svg("circle", {
    class: point.k === played ? "dot here" : point.k < played ? "dot" : "dot ahead", cx: x(point.k), cy: y(point.q), r: point.k === played ? 5.5 : 4,
    tabindex: 0, role: "link", "aria-label": `${points[point.k].name}: ${signed(point.q)}`, onclick: () => go(point.k), onkeydown: (event) => event.key === "Enter" && go(point.k),
  }, svg("title", {}, `${points[point.k].name}: Q ${signed(point.q)} for White, N ${count(points[point.k].n)}`)));
  const every = Math.max(1, Math.ceil((60 * points.length) / wide));
  const names = points.map((point, k) => (k % every ? null : svg("text", { class: "scale", x: x(k), y: tall - 6, "text-anchor": k ? "middle" : "start" }, point.name)));
  return svg("svg", { class: "plot", width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}`, role: "group", "aria-label": "Q for White along the line" }, ...grid, ...names,
    svg("path", { class: "curve ahead", d: path(known.filter((point) => point.k >= played)) }),
    svg("path", { class: "curve", d: path(known.filter((point) => point.k <= played)) }), ...dots);
}

// ------------------------------------------------------------ lines
function lineText(steps, rootFen) {
  let [number, white] = [Number(rootFen.split(" ")[5]), rootFen.split(" ")[1] === "w"];
  return steps.map(({ san }, k) => {
    const text = `${white ? `${number}. ` : k ? "" : `${number}\u2026 `}${san}`;
    if (!white) number += 1;
    white = !white;
    return text;
  }).join(" ");
}
