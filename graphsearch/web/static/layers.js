// Positions in layers: each at the fewest moves from the first one, branches whole, neighbours near each other.

// where positions stand, by number: level, place in it in steps of 1 or more, and main, the most visited edge from the level above
// root: number of the first position; edges: { from, to, ... }, the most visited first; each gets `main`
export function layered(root, edges) {
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
  return new Map(numbers.map((number, k) => [number, { level: levels.get(number), place: stand[k], main: main.get(number) }]));
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

const SWEEPS = 30;
const SIDE_PULL = 0.2;

// the edges of the tree are drawn without crossings, the others pull their ends a little
export function places(levels, tree, sides) {
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

// the nearest places, by the sum of squares, that keep the order and steps of 1 or more
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
