// The moves of the position: visits, values, priors, proofs, lines, games and books.

import { ask, send } from "./api.js";
import { asked, bar, chip, count, forWhite, h, pawns, percent, points, proven, put, score, short, showMenu, signed, sortHead } from "./dom.js";
import { turnOf } from "./chess.js";
import { isLeftOut, leaveOut, leftOut, limitNote, searchBehind } from "./search.js";
import { here, node, play, played, pointed, refresh, state, tell, toast } from "./state.js";

const order = { by: null, down: true, details: false };

const COLUMNS = [
  ["san", "Move", null], ["cp", "Score", "In pawns, or moves to mate; White's view"], ["wdl", "W D L", "White's chances to win, draw and lose"],
  ["n", "Visits", null], ["p", "P", "Prior of the evaluator"], ["q", "Q", "Expected result, −1 to +1; White's view"],
  ["games", "Games", "Imported games: won by White, drawn, won by Black"], ["book", "Book", "Why a book has the move"], ["act", "", null],
];

export const movesView = {
  name: "moves",
  make(host) {
    const redraw = () => draw(host);
    return { show: redraw, on: { position: redraw, news: redraw, live: redraw } };
  },
};

function rowsOf() {
  const { look } = state;
  const known = new Map((node()?.moves || []).map((move) => [move.move, move]));
  const stored = new Map((look.node?.moves || []).map((move) => [move.move, move]));
  const all = [...known.keys(), ...look.legal.map((each) => each.move).filter((move) => !known.has(move))];
  const san = new Map(look.legal.map((each) => [each.move, each.san]));
  return all.map((move, rank) => ({
    ...stored.get(move), ...known.get(move), move, rank, san: san.get(move) || known.get(move)?.san || move,
    n: known.get(move)?.n || 0,
    games: look.games[move] || null,
    book: look.books.map((book) => ({ name: book.book, found: book.moves.find((each) => each.move === move) })).filter((each) => each.found),
  }));
}

const KEYS = {
  san: (row) => row.san, n: (row) => row.n, q: (row) => row.q ?? -9, wdl: (row) => row.wdl?.[0] ?? -1, cp: (row) => row.q ?? -9,
  p: (row) => row.p ?? -1, games: (row) => played_(row.games), book: (row) => row.book.length,
};
const played_ = (games) => (games ? games.white + games.draws + games.black + games.unknown : 0);

function sorted(rows) {
  if (!order.by) return rows;
  const key = KEYS[order.by];
  const sign = order.down ? -1 : 1;
  return [...rows].sort((a, b) => (key(a) < key(b) ? -sign : key(a) > key(b) ? sign : a.rank - b.rank));
}

function draw(host) {
  if (!state.look) return;
  const rows = sorted(rowsOf());
  if (!rows.length) {
    put(host, h("p", { class: "note", text: `There are no moves: ${state.look.over || "the game is over"}.` }));
    return;
  }
  const has = { p: order.details, q: order.details, games: rows.some((row) => row.games), book: rows.some((row) => row.book.length) };
  const columns = COLUMNS.filter(([name]) => has[name] !== false);
  const all = rows.reduce((sum, row) => sum + row.n, 0);
  const seen = rows.filter((row) => row.n || row.games || row.book.length || row.mate);
  const unseen = rows.filter((row) => !seen.includes(row));
  const more = h("label", { class: "details" }, h("input", { type: "checkbox", "data-focus": "details", checked: order.details, onchange: (event) => { order.details = event.target.checked; draw(host); } }), " details");
  put(host, lead(), h("div", { class: "scroll moves-scroll" }, h("table", { class: "moves" },
    h("caption", { class: "hidden", text: "Moves of the position" }), h("thead", {}, h("tr", {}, columns.map((column) => header(column, host)))),
    h("tbody", {}, seen.map((row) => rowOf(row, columns, all))))),
  unseen.length && never(unseen, Boolean(node())), more);
}

function header([name, title, about], host) {
  if (!title) return h("th", { scope: "col" }, h("span", { class: "hidden", text: "More" }));
  const turn = () => {
    if (order.by !== name) Object.assign(order, { by: name, down: name !== "san" });
    else if (order.down === (name !== "san")) order.down = !order.down;
    else order.by = null;
    draw(host);
  };
  return sortHead(name, title, order, turn, { class: `c-${name}`, title: about });
}

function rowOf(row, columns, all) {
  const cells = {
    san: () => h("span", {}, h("button", { type: "button", class: "move", "data-focus": row.move, text: row.san, onclick: () => play(row.move) }),
      Object.keys(SIDES).filter((side) => isIn(side, row.move)).map((side) => h("span", { class: "mark", role: "img", "aria-label": `in ${SIDES[side]} repertoire`, title: `In ${SIDES[side]} repertoire`, text: side === "white" ? "♙" : "♟" })),
      row.transposition && h("span", { class: "mark", title: "Other moves lead to this position too", text: "⇄" }),
      row.apart && h("span", { class: "mark", title: "Searched apart: the visits and the value are those of the position behind it", text: "◇" }),
      Math.abs(row.stale || 0) > 0.02 && h("span", { class: "mark", title: `The position behind it is now worth Q ${signed(forWhite({ q: row.child_q }, fen()).q)}; refresh the file to bring the move up to date`, text: "≈" })),
    n: () => h("span", { class: "with-bar" }, h("span", { class: "figure", text: row.n ? count(row.n) : "–", title: percent(all ? row.n / all : 0) }), bar(`${percent(all ? row.n / all : 0)} of the visits`, ["n", all ? row.n / all : 0])),
    q: () => signed(forWhite(row, fen()).q),
    wdl: () => row.wdl && wdlBar(white() ? row.wdl : [...row.wdl].reverse()),
    cp: () => h("span", {}, row.mate ? score(forWhite(row, fen())) : chip(row, fen()), row.bounds && proven(row.bounds, fen()) && h("span", { class: "proof", text: proven(row.bounds, fen()) })),
    p: () => percent(row.p),
    games: () => row.games && gamesCell(row.games),
    book: () => row.book.map(({ name, found }) => h("span", { class: "book", text: found.rule, title: `${name}: loses ${pawns(found.loss) || "?"}` })),
    act: () => !state.file?.read_only && h("button", { type: "button", class: "quiet act", "data-focus": `act ${row.move}`, "aria-haspopup": "menu", "aria-label": `Search ${row.san}`, title: "Search here, exclude, only this, repertoire", text: "⋯", onclick: (event) => menu(event.currentTarget, row) }),
  };
  return h("tr", { class: isLeftOut(row.move) ? "left-out" : null, ...pointed(row.move) }, columns.map(([name]) => h("td", { class: `c-${name}` }, cells[name]() || "")));
}

const fen = () => state.look.position;
const white = () => turnOf(fen()) === "w";
const wdlBar = ([win, draws, loss]) => bar(`White wins ${percent(win, 0)}, draws ${percent(draws, 0)}, Black wins ${percent(loss, 0)}`, ["win", win], ["draw", draws], ["loss", loss]);

function gamesCell(games) {
  const all = played_(games);
  const known = games.white + games.draws + games.black || 1;
  const about = `${count(all)} games: ${count(games.white)} won by White, ${count(games.draws)} drawn, ${count(games.black)} won by Black${games.unknown ? `, ${count(games.unknown)} without a known result` : ""}`;
  return h("span", { class: "with-bar" }, h("span", { class: "figure", text: short(all), title: about }),
    bar(about, ["white", games.white / known], ["even", games.draws / known], ["black", games.black / known]));
}

function never(rows, searched) {
  const text = searched ? "Never visited" : state.look.problem ? "Their numbers cannot be read" : "Not searched";
  return h("p", { class: "never" }, h("span", { class: "muted", text: `${text}: ` }), rows.map((row) => h("button", {
    type: "button", class: "ply", "data-focus": row.move, text: row.p ? `${row.san} ${percent(row.p)}` : row.san, onclick: () => play(row.move), ...pointed(row.move),
  })));
}

// what stands above the table: books and proofs
function lead() {
  const found = node();
  const parts = [limitNote((move) => state.look.legal.find((each) => each.move === move)?.san || move)];
  if (found && proven(found.bounds, fen())) parts.push(h("span", { class: "proof", text: `Proven: ${proven(found.bounds, fen())}${found.mate ? `, mate in ${Math.abs(found.mate)}` : ""}` }));
  for (const book of state.look.books) {
    parts.push(h("span", { class: "in-book" }, `In the book ${book.book} (${book.state}, ply ${book.ply}${book.value === null ? "" : `, Q ${signed(forWhite({ q: book.value }, fen()).q)}`}) `,
      h("button", { type: "button", class: "link", text: "Why?", onclick: (event) => why(event.target, book.book) })));
  }
  return parts.some(Boolean) && h("div", { class: "lead" }, parts);
}

async function why(button, book) {
  const found = await ask("why", { ...here(), book });
  const rows = found.moves.map((move) => h("li", {}, h("b", { text: `${move.san}: ` }), `${move.reason}`));
  button.replaceWith(h("ul", { class: "why" }, rows.length ? rows : h("li", { text: `${found.state}; nothing was decided here yet` })));
}

// what is done with a move
function menu(button, { move, san }) {
  const others = [...leftOut()].filter((each) => each !== move);
  showMenu(document.getElementById("row-menu"), button, [
    [`Search here: after ${san}`, () => searchBehind(move)],
    [isLeftOut(move) ? "Take this move again" : "Exclude this move", () => leaveOut(isLeftOut(move) ? others : [...others, move])],
    ["Only this move", () => leaveOut(state.look.legal.map((each) => each.move).filter((each) => each !== move))],
    ...rowItems(move, san),
  ]);
}

// ------------------------------------------------------------ moves of repertoires
export const SIDES = { white: "White’s", black: "Black’s" };
const isIn = (side, move) => Boolean(state.look?.repertoire[side]?.includes(move));

// adds a line, or removes its last move (`remove` is its SAN), if that is meant; tells what was done
export async function changeRepertoire(side, { root, line }, { remove = "" } = {}) {
  if (remove && !await asked(`Remove ${remove}, and all that only it reaches?`, "Remove")) return;
  const { added, removed } = await send(`repertoire-${remove ? "remove" : "add"}`, { side, root, line: line.join(" ") });
  if (added || removed) tell("edited");
  toast(`${SIDES[side]} repertoire: ${remove ? `${points(removed, "move")} removed` : added ? `${points(added, "move")} added` : "it has this line already"}.`);
  refresh();
}

// items of the menu of a row: [text, act]
function rowItems(move, san) {
  const mine = white() ? "white" : "black";
  const sides = Object.keys(SIDES).filter((side) => side === mine || isIn(side, move));
  return sides.map((side) => {
    const remove = isIn(side, move);
    return [`${remove ? "Remove from" : "Add to"} ${SIDES[side]} repertoire`, () => changeRepertoire(side, { root: state.root, line: [...played(), move] }, { remove: remove && san })];
  });
}

export const lineItems = (root, line) => Object.keys(SIDES).map((side) => [`Add this line to ${SIDES[side]} repertoire`, () => changeRepertoire(side, { root, line })]);
