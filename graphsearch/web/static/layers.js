// Positions in layers: each at the fewest moves from the first one, branches whole, neighbours near each other.

// where positions stand, by number: level, place in it in steps of 1 or more, and main, the most visited edge from the level above
// root: number of the first position; edges: { from, to, ... }, the most visited first; each gets `main`
export function layered(root, edges) {
  const levels = new Map([[root, 0]]);
  for (const [number, level] of levels) { // which grows meanwhile
    for (const { from, to } of edges) if (from === number && !levels.has(to)) levels.set(to, level + 1);
  }
  const main = new Map();
  for (const edge of edges) {
    edge.main = levels.get(edge.to) === levels.get(edge.from) + 1 && !main.has(edge.to);
    if (edge.main) main.set(edge.to, edge);
  }
  const layers = [];
  const hang = (number) => {
    (layers[levels.get(number)] ||= []).push(number);
    for (const edge of edges) if (edge.main && edge.from === number) hang(edge.to);
  };
  hang(root);
  const at = placesOf(layers, edges);
  return new Map([...levels].map(([number, level]) => [number, { level, place: at.get(number), main: main.get(number) }]));
}

const SWEEPS = 30;
const SIDE_PULL = 0.2;

// main edges are drawn without crossings, the others pull their ends a little
function placesOf(layers, edges) {
  const at = new Map(layers.flatMap((layer) => layer.map((number, k) => [number, k - (layer.length - 1) / 2])));
  const pulls = new Map([...at.keys()].map((number) => [number, []]));
  for (const { from, to, main } of edges) {
    pulls.get(from).push([to, main ? 1 : SIDE_PULL]);
    pulls.get(to).push([from, main ? 1 : SIDE_PULL]);
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const layer of sweep % 2 ? layers : layers.toReversed()) {
      spread(layer.map((number) => meanOf(pulls.get(number), at) ?? at.get(number))).forEach((place, k) => at.set(layer[k], place));
    }
  }
  const least = Math.min(...at.values());
  return new Map([...at].map(([number, place]) => [number, Math.round(1000 * (place - least)) / 1000]));
}

function meanOf(pulls, at) {
  const total = pulls.reduce((sum, [, weight]) => sum + weight, 0);
  return total ? pulls.reduce((sum, [other, weight]) => sum + at.get(other) * weight, 0) / total : null;
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
