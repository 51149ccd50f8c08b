// The positions of the site: in parts, each a script, because a page from a folder may not fetch. A part is loaded when
// one of its positions is wanted. The rows are written by export.py, which documents them.

const SCALE = 10000; // of values and priors
const parts = new Map(); // number of the part -> promise of its rows
const waiting = new Map(); // number of the part -> who is told its rows

window.graphsearchPart = (number, rows) => waiting.get(number)(rows);

function loadPart(number) {
  if (!parts.has(number)) {
    parts.set(number, new Promise((resolve) => {
      waiting.set(number, resolve);
      const script = document.createElement("script");
      script.src = `data/${number}.js`;
      script.onerror = () => { document.getElementById("facts").textContent = `data/${number}.js is missing`; };
      document.head.append(script);
    }));
  }
  return parts.get(number);
}

const scaled = (x) => (x === null ? null : x / SCALE);

function moveOf([uci, san, child, n, p, q, cp, value = q, rule = ""], white) {
  return { uci, san, child, n, p: scaled(p), q: scaled(q), cp, value: scaled(value), rule, white };
}

// what the side to move sees, as White sees it
const forWhite = (move, x) => (x === null || move.white ? x : 0 - x);

// what is known of a position: q is seen by the side to move, as the q and value of its moves are
async function positionOf(number) {
  const rows = await loadPart(Math.floor(number / SITE.partSize));
  const [fen, n, q, mate, note, level, state, moves, ways] = rows[number % SITE.partSize];
  const white = fen.split(" ")[1] === "w";
  const found = { number, fen, white, n, q: scaled(q), mate, note, level, state, moves: moves.map((move) => moveOf(move, white)) };
  found.whiteQ = found.q === null ? null : white ? found.q : -found.q;
  found.ways = ways.map(([from, san, visits]) => ({ from, san, n: visits }));
  return found;
}

// the numbers of the positions on the shortest way from a root, and the moves between them
async function pathTo(number) {
  const steps = [];
  for (let at = await positionOf(number); at.level > 0 && at.ways.length;) {
    const before = await positionOf(at.ways[0].from);
    const move = before.moves.find((each) => each.child === at.number);
    steps.unshift({ uci: move.uci, san: move.san, number: at.number });
    at = before;
    if (!at.level) return { root: at.number, steps };
  }
  return { root: number, steps: [] };
}
