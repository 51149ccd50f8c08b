// A chess board in SVG: pieces that are dragged or clicked, promotion, arrows, last move, check, coordinates.
//
//   board.show({ fen, legal: ["e2e4", ...], last: "e7e5", check: "e1", arrows: [{ move: "g1f3", width: 0.6 }] });
//
// The document holds the pieces as symbols `piece-wk` ... `piece-bp`. With `legal: null` the moves are not known
// yet: the men of `turn` may be taken up, and `onEarly(from, to)` gets the move.

import { after, castlingOf, menOf, spoken } from "./chess.js";

const SVG = "http://www.w3.org/2000/svg";
const UNIT = 45;
const FILES = "abcdefgh";

const isEqual = (men, others) => JSON.stringify(Object.entries(men).sort()) === JSON.stringify(Object.entries(others).sort());

function draw(tag, attributes, parent) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (parent) parent.append(element);
  return element;
}

export class Board {
  constructor(host, { onMove, onEarly = null }) {
    this.onMove = onMove;
    this.onEarly = onEarly;
    this.flipped = false;
    this.state = { men: {}, legal: [], last: null, check: null, arrows: [] };
    this.svg = draw("svg", { class: "board", viewBox: `0 0 ${8 * UNIT} ${8 * UNIT}`, role: "group" }, host);
    this.layers = Object.fromEntries(["squares", "marks", "names", "men", "hints", "arrows", "drawn", "above"]
      .map((name) => [name, draw("g", { class: name, "aria-hidden": name === "above" ? "false" : "true" }, this.svg)]));
    this.selected = null;
    this.cursor = null; // the square that keys have gone to
    this.drawn = new Map(); // arrows and circles of a person: kind by move or square
    this.drawSquares();
    this.svg.addEventListener("pointerdown", (event) => this.down(event));
    this.svg.addEventListener("pointermove", (event) => this.drag(event));
    this.svg.addEventListener("pointerup", (event) => this.up(event));
    this.svg.addEventListener("pointercancel", () => this.select(null));
    this.svg.addEventListener("contextmenu", (event) => event.preventDefault());
  }

  // ------------------------------------------------------------ what is shown
  show({ fen, men = menOf(fen), legal = [], turn = null, last = null, check = null, arrows = [] }) {
    if (fen && fen !== this.fen) this.clearDrawn();
    this.fen = fen ?? this.fen;
    const isSame = !this.state.legal && isEqual(men, this.state.men); // now its moves are known
    this.state = { men, legal, turn, last, check, arrows };
    if (!isSame || !this.canMove(this.selected)) [this.selected, this.dragging] = [null, null];
    this.svg.setAttribute("aria-label", fen ? `Chess board. ${spoken(fen)}` : "Chess board");
    this.redraw();
    if (this.dragging) this.dragging.man = this.manOn(this.dragging.square);
  }

  manOn(square) {
    return this.layers.men.querySelector(`[data-square="${square}"]`);
  }

  setArrows(arrows) {
    this.state.arrows = arrows;
    this.drawArrows();
  }

  flip(flipped = !this.flipped) {
    this.flipped = flipped;
    this.drawSquares();
    this.redraw();
  }

  redraw() {
    this.drawMarks();
    this.drawMen();
    this.drawHints();
    this.drawArrows();
    this.drawDrawn();
    this.layers.above.replaceChildren();
    this.choosing = false;
  }

  // ------------------------------------------------------------ geometry
  corner(square) {
    const file = FILES.indexOf(square[0]);
    const rank = Number(square[1]) - 1;
    return this.flipped ? [(7 - file) * UNIT, rank * UNIT] : [file * UNIT, (7 - rank) * UNIT];
  }

  centre(square) {
    return this.corner(square).map((x) => x + UNIT / 2);
  }

  squareAt(event) {
    const [file, rank] = this.pointAt(event).map((x) => Math.floor(x / UNIT));
    if (file < 0 || file > 7 || rank < 0 || rank > 7) return null;
    return this.flipped ? FILES[7 - file] + (rank + 1) : FILES[file] + (8 - rank);
  }

  pointAt(event) {
    const box = this.svg.getBoundingClientRect();
    return [(8 * UNIT * (event.clientX - box.left)) / box.width, (8 * UNIT * (event.clientY - box.top)) / box.height];
  }

  // ------------------------------------------------------------ drawing
  drawSquares() {
    this.layers.squares.replaceChildren();
    this.layers.names.replaceChildren();
    const name = (text, x, y, dark, anchor) => { draw("text", { class: dark ? "on-dark" : "on-light", x, y, "text-anchor": anchor, "font-size": 9 }, this.layers.names).textContent = text; };
    for (const file of FILES) {
      for (let rank = 1; rank <= 8; rank += 1) {
        const [x, y] = this.corner(file + rank);
        const dark = (FILES.indexOf(file) + rank) % 2;
        draw("rect", { class: dark ? "dark" : "light", x, y, width: UNIT, height: UNIT }, this.layers.squares);
        if (y === 7 * UNIT) name(file, x + UNIT - 3, y + UNIT - 3, dark, "end");
        if (x === 0) name(rank, x + 3, y + 10, dark, "start");
      }
    }
  }

  drawMarks() {
    const { last, check } = this.state;
    this.layers.marks.replaceChildren();
    for (const [square, name] of [[last?.slice(0, 2), "last"], [last?.slice(2, 4), "last"], [this.selected, "selected"], [this.cursor, "cursor"]]) {
      if (!square) continue;
      const [x, y] = this.corner(square);
      draw("rect", { class: name, x, y, width: UNIT, height: UNIT }, this.layers.marks);
    }
    if (check) {
      const [x, y] = this.centre(check);
      draw("circle", { class: "check", cx: x, cy: y, r: UNIT / 2 - 1.5 }, this.layers.marks);
    }
  }

  drawMen() {
    this.layers.men.replaceChildren();
    for (const [square, man] of Object.entries(this.state.men)) {
      const [x, y] = this.corner(square);
      const use = draw("use", { href: `#piece-${man}`, x, y, width: UNIT, height: UNIT, "data-square": square }, this.layers.men);
      if (this.canMove(square)) use.setAttribute("class", "movable");
    }
  }

  drawHints() {
    this.layers.hints.replaceChildren();
    if (!this.selected) return;
    for (const target of new Set(this.movesFrom(this.selected).map((move) => move.slice(2, 4)))) {
      const [x, y] = this.centre(target);
      const taken = Boolean(this.state.men[target]);
      draw("circle", { class: taken ? "take" : "go", cx: x, cy: y, r: taken ? UNIT / 2 - 3 : 6 }, this.layers.hints);
    }
  }

  drawArrows() {
    this.layers.arrows.replaceChildren();
    for (const { move, width = 0.5, kind = "best", label = "" } of [...this.state.arrows].reverse()) {
      const path = draw("path", { class: `arrow ${kind}`, d: this.arrow(move, 3 + 9 * width) }, this.layers.arrows);
      if (label) draw("title", {}, path).textContent = label;
    }
    const places = []; // of scores, which do not overlap
    for (const { move, text } of this.state.arrows) if (text) this.drawScore(move, text, places);
  }

  // the value of a move at the head of its arrow
  drawScore(move, text, places) {
    const [[x1, y1], [x2, y2]] = [this.centre(move.slice(0, 2)), this.centre(move.slice(2, 4))];
    const length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const width = 4 + 4.6 * text.length;
    let [x, y] = [x2 - ((x2 - x1) / length) * 9, y2 - ((y2 - y1) / length) * 9];
    const isTaken = () => places.some((other) => Math.abs(other.x - x) < (other.width + width) / 2 && Math.abs(other.y - y) < 12);
    for (let tries = 0; isTaken() && tries < 4; tries += 1) [x, y] = [x - ((x2 - x1) / length) * 12, y - ((y2 - y1) / length) * 12];
    places.push({ x, y, width });
    draw("rect", { class: "score-back", x: x - width / 2, y: y - 5.5, width, height: 11, rx: 2 }, this.layers.arrows);
    draw("text", { class: "score", x, y: y + 3, "text-anchor": "middle", "font-size": 8 }, this.layers.arrows).textContent = text;
  }

  // ------------------------------------------------------------ what a person draws
  // arrows and circles of a comment: [%cal Gd2d4,Re4e5] [%csl Yd4]
  drawComment(comment) {
    const kinds = { G: "first", R: "second", B: "third", Y: "fourth" };
    for (const [, words] of comment.matchAll(/\[%c[as]l\s+([^\]]*)\]/g)) {
      for (const [, kind, place] of words.matchAll(/([GRBY])((?:[a-h][1-8]){1,2})\b/g)) this.drawn.set(place, kinds[kind]);
    }
    this.drawDrawn();
  }

  clearDrawn() {
    this.drawn.clear();
    this.drawDrawn();
  }

  drawDrawn() {
    this.layers.drawn.replaceChildren();
    for (const [name, kind] of this.drawn) {
      if (name.length === 4) { draw("path", { class: `mine ${kind}`, d: this.arrow(name, 6) }, this.layers.drawn); continue; }
      const [cx, cy] = this.centre(name);
      draw("circle", { class: `mine ${kind}`, cx, cy, r: UNIT / 2 - 3 }, this.layers.drawn);
    }
  }

  // with the right button: an arrow, or a circle; another colour with Shift, Ctrl or Alt
  drawing(event) {
    const from = this.squareAt(event);
    if (!from) return;
    const kind = event.shiftKey ? "second" : event.ctrlKey ? "third" : event.altKey ? "fourth" : "first";
    const end = (up) => {
      if (up.button !== 2) return;
      document.removeEventListener("pointerup", end);
      const to = this.squareAt(up);
      if (!to) return;
      const name = from === to ? from : from + to;
      if (this.drawn.get(name) === kind) this.drawn.delete(name); else this.drawn.set(name, kind);
      this.drawDrawn();
    };
    document.addEventListener("pointerup", end);
  }

  arrow(move, width) {
    const [x1, y1] = this.centre(move.slice(0, 2));
    const [x2, y2] = this.centre(move.slice(2, 4));
    const length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
    const head = Math.min(length * 0.5, 8 + width * 1.1);
    const point = (along, aside) =>
      `${(x1 + dx * along - dy * aside).toFixed(1)},${(y1 + dy * along + dx * aside).toFixed(1)}`;
    const [start, neck, tip, half, wing] = [UNIT * 0.22, length - head, length - 4, width / 2, width / 2 + 4.5];
    return `M${point(start, -half)}L${point(neck, -half)}L${point(neck, -wing)}L${point(tip, 0)}`
      + `L${point(neck, wing)}L${point(neck, half)}L${point(start, half)}Z`;
  }

  // ------------------------------------------------------------ moving
  movesFrom(square) {
    return (this.state.legal || []).filter((move) => move.startsWith(square));
  }

  canMove(square) {
    if (!square) return false;
    return this.state.legal ? this.movesFrom(square).length > 0 : this.isOwn(square);
  }

  isOwn(square) {
    return this.state.men[square]?.[0] === this.state.turn;
  }

  select(square) {
    this.selected = square;
    this.dragging = null;
    this.drawMarks();
    this.drawMen();
    this.drawHints();
  }

  down(event) {
    if (event.button === 2) this.drawing(event);
    if (event.button || this.choosing) return;
    if (this.drawn.size) this.clearDrawn();
    const square = this.squareAt(event);
    if (this.selected && square !== this.selected && this.tryMove(this.selected, square)) return;
    if (!square || !this.canMove(square)) {
      this.select(null);
      return;
    }
    const again = this.selected === square;
    this.select(square);
    this.svg.setPointerCapture(event.pointerId);
    this.dragging = { square, again, moved: false, man: this.manOn(square) };
    event.preventDefault();
  }

  drag(event) {
    if (!this.dragging) return;
    const { man, square } = this.dragging;
    const [x, y] = this.pointAt(event);
    if (!this.dragging.moved && this.squareAt(event) === square) return;
    this.dragging.moved = true;
    man.classList.add("dragged");
    this.layers.men.append(man);
    man.setAttribute("x", x - UNIT / 2);
    man.setAttribute("y", y - UNIT / 2);
  }

  up(event) {
    if (!this.dragging) return;
    const { square, again, moved } = this.dragging;
    this.dragging = null;
    const target = this.squareAt(event);
    if (target && target !== square && this.tryMove(square, target)) return;
    this.select(target === square && !moved && !again ? square : null);
  }

  tryMove(from, to) {
    if (!this.state.legal) return this.tryEarly(from, to);
    const named = this.movesFrom(from).filter((move) => move.slice(2, 4) === to);
    const castles = (move) => { const found = castlingOf(this.state.men, move); return found?.kingTo === to || found?.rook === to; };
    const moves = named.length ? named : this.movesFrom(from).filter(castles); // castling by either way of writing it
    if (!moves.length) return false;
    if (moves.length > 1) this.choose(moves);
    else this.play(moves[0]);
    return true;
  }

  // draws a move, whether or not it turns out to be legal
  tryEarly(from, to) {
    const { men } = this.state;
    if (this.isOwn(to) && !castlingOf(men, from + to)) return false;
    this.put({ men: after(men, from + to), legal: [] });
    this.onEarly(from, to);
    return true;
  }

  play(move) {
    this.put({ men: after(this.state.men, move), last: move, legal: [], check: null, arrows: [] });
    this.onMove(move);
  }

  put(changed) {
    Object.assign(this.state, changed);
    this.selected = null;
    this.redraw();
  }

  // the promoted piece is chosen on the board, by pointer or keys
  choose(moves) {
    this.choosing = true;
    const before = document.activeElement;
    const end = () => { this.select(null); this.redraw(); before?.focus?.(); };
    const above = this.layers.above;
    const square = moves[0].slice(2, 4);
    const colour = square[1] === "8" ? "w" : "b";
    const [x, y] = this.corner(square);
    const step = y < 4 * UNIT ? UNIT : -UNIT;
    above.replaceChildren();
    draw("rect", { class: "veil", x: 0, y: 0, width: 8 * UNIT, height: 8 * UNIT }, above)
      .addEventListener("pointerdown", end);
    const choices = Object.entries({ q: "queen", n: "knight", r: "rook", b: "bishop" }).map(([kind, name], k) => {
      const move = moves.find((each) => each[4] === kind);
      const group = draw("g", { class: "choice", tabindex: 0, role: "button", "aria-label": `promote to ${name}` }, above);
      draw("rect", { x, y: y + k * step, width: UNIT, height: UNIT }, group);
      draw("use", { href: `#piece-${colour}${kind}`, x, y: y + k * step, width: UNIT, height: UNIT }, group);
      group.addEventListener("pointerdown", (event) => { event.stopPropagation(); this.play(move); });
      group.addEventListener("keydown", (event) => {
        const next = { ArrowDown: 1, ArrowUp: -1 }[event.key] * Math.sign(step);
        if (event.key === "Enter" || event.key === " ") { this.play(move); before?.focus?.(); }
        else if (event.key === "Escape") end();
        else if (next) choices[(k + next + choices.length) % choices.length].focus();
        else return;
        event.preventDefault();
        event.stopPropagation();
      });
      return group;
    });
    choices[0].focus({ preventScroll: true });
  }
}
