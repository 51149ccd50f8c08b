// The moves of a game with its variations. A change returns what it did, { put, drop }, to be made in another tree.

export const START_NODE = 0; // the number of the first position

// moves: each after its parent, those of one parent in their order
export class Tree {
  constructor(moves = []) {
    this.nodes = new Map([[START_NODE, { id: START_NODE, parent: null, kids: [] }]]);
    this.last = START_NODE;
    for (const move of moves) this.#hang({ ...move, kids: [] });
  }

  #hang(node) {
    this.nodes.set(node.id, node);
    this.nodes.get(node.parent).kids.push(node.id);
    this.last = Math.max(this.last, node.id);
  }

  // the same moves, which later changes of this tree leave alone
  copy() {
    const found = new Tree();
    Object.assign(found, { nodes: structuredClone(this.nodes), last: this.last });
    return found;
  }

  get size() { return this.nodes.size - 1; }
  node(id) { return this.nodes.get(id); }
  kids(id) { return this.nodes.get(id).kids.map((kid) => this.nodes.get(kid)); }

  // the moves that lead to a node
  path(id) {
    const found = [];
    for (let node = this.node(id); node.parent !== null; node = this.node(node.parent)) found.push(node);
    return found.reverse();
  }

  // the first moves from a node on
  rest(id) {
    const found = [];
    for (let [kid] = this.kids(id); kid; [kid] = this.kids(kid.id)) found.push(kid);
    return found;
  }

  // how far a line (UCI) is in the tree: the node there, and the moves up to it
  find(line) {
    let [at, plies] = [START_NODE, 0];
    for (const move of line) {
      const kid = this.kids(at).find((each) => each.move === move);
      if (!kid) break;
      [at, plies] = [kid.id, plies + 1];
    }
    return { id: at, plies };
  }

  // all nodes, each after its parent, a line before its variations
  * walk(from = START_NODE) {
    const waiting = [...this.kids(from)].reverse();
    while (waiting.length) {
      const node = waiting.pop();
      yield node;
      waiting.push(...this.kids(node.id).reverse());
    }
  }

  get isPlain() { return [...this.nodes.values()].every((node) => node.kids.length < 2 && !node.comment && !node.before && !node.nags?.length); }

  // the number of a node in the order of `walk`, as the server has it
  number(id) { return 1 + [...this.walk()].findIndex((node) => node.id === id); }

  // ---------------------------------------------------------- changes
  #done(node, values) { return { put: [{ path: this.path(node.id).map((each) => each.move), san: node.san, ...values }] }; }

  add(parent, move, san) {
    const node = { id: this.last + 1, parent, move, san, before: "", comment: "", nags: [], kids: [] };
    this.#hang(node);
    return { node, change: this.#done(node) };
  }

  // to the place before, or behind, among its variations
  shift(id, by) {
    const place = this.node(this.node(id).parent).kids.indexOf(id) + by;
    return this.#place(id, place) ? this.#done(this.node(id), { place }) : null;
  }

  #place(id, place) {
    const { kids } = this.node(this.node(id).parent);
    if (place < 0 || place >= kids.length) return false;
    kids.splice(kids.indexOf(id), 1);
    kids.splice(place, 0, id);
    return true;
  }

  // the move where the variation of a node begins; null on the main line
  branch(id) {
    for (const node of this.path(id).reverse()) if (this.node(node.parent).kids[0] !== node.id) return node.id;
    return null;
  }

  // how many moves go with this one
  below(id) { return [...this.walk(id)].length; }

  remove(id) {
    const drop = [this.path(id).map((node) => node.move)];
    const kids = this.node(this.node(id).parent).kids;
    kids.splice(kids.indexOf(id), 1);
    for (const node of [this.node(id), ...this.walk(id)]) this.nodes.delete(node.id);
    return { drop };
  }

  set(id, values) {
    Object.assign(this.node(id), values);
    return this.#done(this.node(id), values);
  }

  // makes a change that was made in another tree, as far as its moves are here
  repeat({ put = [], drop = [] }) {
    for (const { path, san, place, ...values } of put) {
      const { id, plies } = this.find(path);
      if (plies < path.length - 1) continue; // it was deleted here
      const node = plies === path.length ? this.node(id) : this.add(id, path.at(-1), san).node;
      if (place !== undefined) this.#place(node.id, place);
      for (const [name, value] of Object.entries(values)) if (value.length) node[name] = value;
    }
    for (const path of drop) {
      const { id, plies } = this.find(path);
      if (plies === path.length) this.remove(id);
    }
  }

  // all of it, as the server reads it
  get rows() { return [...this.walk()].map(({ id, parent, move, before, comment, nags }) => ({ id, parent, move, before, comment, nags })); }
}
