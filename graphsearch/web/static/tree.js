// The moves of a game with its variations. A change returns what the server has to write: { put, drop }.

export const START_NODE = 0; // the number of the first position

// moves: each after its parent, those of one parent in their order
export class Tree {
  constructor(moves = [], last = 0) {
    this.nodes = new Map([[START_NODE, { id: START_NODE, parent: null, kids: [] }]]);
    this.last = last;
    for (const move of moves) this.#hang({ ...move, kids: [] });
  }

  #hang(node) {
    this.nodes.set(node.id, node);
    this.nodes.get(node.parent).kids.push(node.id);
    this.last = Math.max(this.last, node.id);
  }

  // the same moves, which later changes of this tree leave alone
  copy() {
    const found = new Tree([], this.last);
    found.nodes = structuredClone(this.nodes);
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

  get isPlain() {
    for (const node of this.nodes.values()) if (node.kids.length > 1 || node.comment || node.before || node.nags?.length) return false;
    return true;
  }

  // ---------------------------------------------------------- changes
  add(parent, move, san) {
    const place = 1 + Math.max(-1, ...this.kids(parent).map((kid) => kid.place));
    const node = { id: this.last + 1, parent, place, move, san, before: "", comment: "", nags: [], kids: [] };
    this.#hang(node);
    return { node, change: { put: [row(node)] } };
  }

  // to the place before, or behind, among its variations
  shift(id, by) {
    const { kids } = this.node(this.node(id).parent);
    const from = kids.indexOf(id);
    const to = from + by;
    if (to < 0 || to >= kids.length) return null;
    [kids[from], kids[to]] = [kids[to], kids[from]];
    kids.forEach((kid, place) => { this.node(kid).place = place; });
    return { put: kids.map((kid) => row(this.node(kid))) };
  }

  // the move where the variation of a node begins; null on the main line
  branch(id) {
    for (const node of this.path(id).reverse()) if (this.node(node.parent).kids[0] !== node.id) return node.id;
    return null;
  }

  // how many moves go with this one
  below(id) { return [...this.walk(id)].length; }

  remove(id) {
    const kids = this.node(this.node(id).parent).kids;
    kids.splice(kids.indexOf(id), 1);
    for (const node of [this.node(id), ...this.walk(id)]) this.nodes.delete(node.id);
    return { drop: [id] };
  }

  set(id, values) {
    Object.assign(this.node(id), values);
    return { put: [row(this.node(id))] };
  }

  // a change that was made in another tree, made here; `numbers` maps the numbers of new moves there to those here
  repeat({ put = [], drop = [] }, other, numbers) {
    const here = (id) => numbers.get(id) ?? id;
    const rows = new Map();
    for (const given of put) {
      let node = this.node(here(given.id));
      if (!node || (node.move !== given.move && !numbers.has(given.id))) {
        if (!this.node(here(given.parent))) continue; // it was deleted there
        const known = this.kids(here(given.parent)).find((kid) => kid.move === given.move);
        node = known || this.add(here(given.parent), given.move, other.node(given.id)?.san || given.move).node;
        numbers.set(given.id, node.id);
      }
      const { before, comment, nags } = given;
      if (node.id === given.id) { // not a new one: it may have another place
        node.place = given.place;
        this.node(node.parent).kids.sort((one, two) => this.node(one).place - this.node(two).place);
      }
      Object.assign(node, { before: before || node.before, comment: comment || node.comment, nags: nags.length ? nags : node.nags });
      rows.set(node.id, row(node));
    }
    const gone = drop.map(here).filter((id) => this.node(id));
    gone.forEach((id) => this.remove(id));
    return { put: [...rows.values()].filter(({ id }) => this.node(id)), drop: gone };
  }

  // all of it, as a new study is written
  get rows() { return [...this.walk()].map(row); }

  // a copy with numbers in order, for a new study
  renumbered() {
    const numbers = new Map([[START_NODE, START_NODE]]);
    const rows = this.rows.map((one, k) => { numbers.set(one.id, k + 1); return one; });
    return rows.map((one) => ({ ...one, id: numbers.get(one.id), parent: numbers.get(one.parent) }));
  }
}

const row = ({ id, parent, place, move, before, comment, nags, long }) => ({ id, parent, place, move, before, comment, nags, keeps: Boolean(long) });
