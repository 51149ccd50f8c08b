// Which positions a picture shows, and where they stand. The same as graphsearch/query/neighbourhood.py,
// which explains it; a test compares the two.

const SWEEPS = 30;
const SIDE_PULL = 0.2;

function places(levels, tree, sides) {
  const pulls = levels.map(() => []);
  for (const [edges, weight] of [[tree, 1], [sides, SIDE_PULL]]) {
    for (const [one, other] of edges) {
      pulls[one].push([other, weight]);
      pulls[other].push([one, weight]);
    }
  }
  const order = orderOf(levels, tree);
  const at = levels.map(() => 0);
  for (const layer of order) layer.forEach((node, k) => { at[node] = k - (layer.length - 1) / 2; });
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const layer of sweep % 2 ? order : [...order].reverse()) {
      spread(layer.map((node) => meanOf(pulls[node], at, at[node]))).forEach((place, k) => { at[layer[k]] = place; });
    }
  }
  const least = Math.min(...at);
  return at.map((place) => Math.round(1000 * (place - least)) / 1000);
}

function orderOf(levels, tree) {
  const below = levels.map(() => []);
  for (const [parent, child] of [...tree].reverse()) below[parent].push(child);
  const order = Array.from({ length: Math.max(...levels) + 1 }, () => []);
  const stack = levels.map((_, node) => node).filter((node) => levels[node] === 0).reverse();
  while (stack.length) {
    const node = stack.pop();
    order[levels[node]].push(node);
    stack.push(...below[node]);
  }
  return order;
}

function meanOf(pulls, at, own) {
  const total = pulls.reduce((sum, [, weight]) => sum + weight, 0);
  return total ? pulls.reduce((sum, [other, weight]) => sum + at[other] * weight, 0) / total : own;
}

function spread(wanted) {
  const blocks = [];
  wanted.forEach((place, k) => {
    let [total, size] = [place - k, 1];
    while (blocks.length && blocks.at(-1)[0] / blocks.at(-1)[1] > total / size) {
      const [other, more] = blocks.pop();
      [total, size] = [total + other, size + more];
    }
    blocks.push([total, size]);
  });
  return blocks.flatMap(([total, size]) => Array(size).fill(total / size)).map((start, k) => start + k);
}

// positions below one, those at the end of the widest lines first; each once, with all ways in
async function neighbourhood(root, depth, most) {
  const known = new Map();
  const level = new Map();
  const queue = [{ width: Infinity, level: 0, serial: 0, child: root }];
  const before = (one, other) => other.width - one.width || one.level - other.level || one.serial - other.serial;
  for (let serial = 1; queue.length;) {
    let best = 0;
    for (let k = 1; k < queue.length; k += 1) if (before(queue[k], queue[best]) < 0) best = k;
    const next = queue[best];
    queue[best] = queue.at(-1);
    queue.pop();
    if ((level.get(next.child) ?? Infinity) <= next.level) continue;
    if (!known.has(next.child)) {
      if (known.size >= most) break;
      known.set(next.child, await positionOf(next.child));
    }
    level.set(next.child, next.level);
    if (next.level >= depth) continue;
    for (const move of known.get(next.child).moves) {
      if (move.child >= 0) {
        queue.push({ width: Math.min(next.width, move.n), level: next.level + 1, serial, child: move.child });
        serial += 1;
      }
    }
  }
  return drawnOf(root, known);
}

function drawnOf(root, known) {
  const edges = [];
  for (const position of known.values()) {
    for (const move of position.moves) {
      if (known.has(move.child) && move.child !== position.number) edges.push({ from: position.number, to: move.child, move });
    }
  }
  edges.sort((one, other) => other.move.n - one.move.n);
  const levels = levelsOf(root, edges);
  const numbers = [...levels.keys()];
  const index = new Map(numbers.map((number, k) => [number, k]));
  const main = new Map();
  for (const edge of edges) {
    if (levels.get(edge.to) === levels.get(edge.from) + 1 && !main.has(edge.to)) main.set(edge.to, edge);
  }
  const ends = (edge) => [index.get(edge.from), index.get(edge.to)];
  for (const edge of edges) edge.main = main.get(edge.to) === edge;
  const stand = places([...levels.values()], edges.filter((e) => e.main).map(ends), edges.filter((e) => !e.main).map(ends));
  const nodes = new Map(numbers.map((number, k) => [
    number, { position: known.get(number), level: levels.get(number), place: stand[k], main: main.get(number) },
  ]));
  return { nodes, edges };
}

function levelsOf(root, edges) {
  const children = new Map();
  for (const { from, to } of edges) children.set(from, [...(children.get(from) ?? []), to]);
  const levels = new Map([[root, 0]]);
  const queue = [root];
  for (let k = 0; k < queue.length; k += 1) {
    for (const child of children.get(queue[k]) ?? []) {
      if (!levels.has(child)) {
        levels.set(child, levels.get(queue[k]) + 1);
        queue.push(child);
      }
    }
  }
  return levels;
}
