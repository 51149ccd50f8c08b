// Which positions a picture shows, as graphsearch/query/tree.py chooses them; `layered` says where they stand.

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
  const nodes = new Map([...layered(root, edges)].map(([number, stand]) => [number, { position: known.get(number), ...stand }]));
  return { nodes, edges };
}
