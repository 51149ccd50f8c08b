// Elements and numbers. Text is only ever set as text, so nothing that a file holds becomes markup.

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

export const put = (host, ...children) => (host.replaceChildren(...children.flat().filter(Boolean)), host);

// draws parts of the page with its news; what is drawn anew five times a second neither swallows a click nor loses the focus
export function steady(host, draw) {
  const late = new Map();
  let pressed = false;
  const show = (name, value) => {
    const focus = document.activeElement?.dataset?.focus;
    draw(name, value);
    if (focus && document.activeElement === document.body) host.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  };
  const released = () => setTimeout(() => { // after the click
    pressed = false;
    const news = [...late];
    late.clear();
    news.forEach(([name, value]) => show(name, value));
  });
  host.addEventListener("pointerdown", () => { pressed = true; });
  for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, released);
  return (name, value) => { if (pressed) late.set(name, value); else show(name, value); };
}

const GAP = 2;
const EDGE = 8; // from the sides of the window

// a menu of [text, act] beside a button; the browser closes it by Escape and by a click elsewhere, the arrow keys go through the items
export function showMenu(menu, button, list) {
  const items = list.map(([text, act]) => h("button", { type: "button", role: "menuitem", text, onclick: () => { menu.hidePopover(); act(); } }));
  put(menu, items);
  menu.onkeydown = (event) => {
    if (event.key === "Tab") menu.hidePopover(); // and on from its button
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
  };
  const box = button.getBoundingClientRect();
  menu.showPopover();
  const below = box.bottom + menu.offsetHeight + EDGE < window.innerHeight;
  menu.style.left = `${Math.max(EDGE, Math.min(window.innerWidth - menu.offsetWidth - EDGE, box.right - menu.offsetWidth))}px`;
  menu.style.top = `${below ? box.bottom + GAP : Math.max(EDGE, box.top - menu.offsetHeight - GAP)}px`;
  items[0]?.focus();
}

// asks for a text, or whether something large is to be done: resolves to the text or true, null if not
export function asked(question, verb, value = null) {
  return new Promise((resolve) => {
    const field = value !== null && h("input", { "aria-label": question, value, size: 30, spellcheck: "false" });
    const dialog = h("dialog", { class: "sheet sure", "aria-label": question, onclose: () => { dialog.remove(); resolve(dialog.returnValue === "yes" ? !field || field.value : null); } },
      h("form", { method: "dialog" }, h("p", { text: question }), field, h("div", { class: "row" }, h("button", { value: "yes", class: "primary", text: verb }), h("button", { value: "", text: "Cancel" }))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

// fields of a form, which keep what is typed: [key, label, choices or placeholder, size]
export function fields(name, values, list, onChoice = () => {}) {
  return list.map(([key, label, kind = "", size = 8]) => {
    const id = `${name}-${key}`;
    const keep = (event) => { values[key] = event.target.value.trim(); };
    const control = Array.isArray(kind)
      ? h("select", { id, onchange: (event) => { keep(event); onChoice(); } }, kind.map(([value, text]) => h("option", { value, text, selected: (values[key] || "") === value })))
      : h("input", { id, size, placeholder: kind, value: values[key] || "", spellcheck: "false", oninput: keep });
    return h("div", { class: "field" }, h("label", { for: id, text: label }), control);
  });
}

export const form = (run, ...parts) => h("form", { class: "inline", onsubmit: (event) => { event.preventDefault(); run(); } }, ...parts);

export const link = (text, onclick, title = null, kind = "") => h("button", { type: "button", class: `link ${kind}`, text, title, onclick });

// what is drawn and leads somewhere, by pointer or Enter
export const visited = (visit) => ({ onclick: visit, onkeydown: (event) => { if (event.key === "Enter") visit(); } });

export function download(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

// a share of 0 to 1 as a bar; `parts` is a list of [class, share]
export function bar(label, ...parts) {
  const width = 100;
  let x = 0;
  const rects = parts.map(([name, share]) => {
    const rect = s("rect", { class: name, x, y: 0, width: Math.max(0, share * width), height: 10 });
    x += share * width;
    return rect;
  });
  return s("svg", { class: "bar", viewBox: `0 0 ${width} 10`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("title", { text: label }), ...rects);
}

const whole = new Intl.NumberFormat("en-US");
export const count = (n) => (n === null || n === undefined ? "" : whole.format(n));
export const percent = (p, digits = 1) => (p === null || p === undefined ? "" : `${(100 * p).toFixed(digits)}%`);
export const signed = (x, digits = 3) => (x === null || x === undefined ? "" : (x >= 0 ? "+" : "−") + Math.abs(x).toFixed(digits));
export const points = (n, one) => `${count(n)} ${one}${n === 1 ? "" : "s"}`;

export function short(n) {
  if (n === null || n === undefined) return "";
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (n >= size) return `${(n / (unit === "k" ? 1e3 : size)).toFixed(n < 1e5 ? 1 : unit === "k" ? 0 : 2)}${unit}`;
  }
  return whole.format(Math.round(n));
}

export function bytes(n) {
  const k = n < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(n) / 3));
  return `${k ? (n / 1000 ** k).toFixed(1) : n} ${["B", "kB", "MB", "GB", "TB"][k]}`;
}

export function clock(seconds) {
  const whole_ = Math.floor(seconds);
  const [hours, minutes, rest] = [Math.floor(whole_ / 3600), Math.floor(whole_ / 60) % 60, whole_ % 60];
  const two = (n) => String(n).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

export const moment = (iso) => (iso ? iso.slice(0, 16).replace("T", " ") : "");
export const when = (iso) => h("span", { class: "when", text: moment(iso) });

// Every score on the page is in pawns and from White's view; what the server says of a position (FEN) is its mover's.
const whites = (value, fen) => (value === null || value === undefined || fen.split(" ")[1] === "w" ? value : 0 - value);

// a value of White as people say it: a mate before pawns
export function score({ cp, mate }) {
  if (Number.isInteger(mate)) return mate < 0 ? `#−${-mate}` : `#${mate}`; // #0: it is on the board
  if (cp === null || cp === undefined) return "";
  return cp === 0 ? "0.00" : (cp > 0 ? "+" : "−") + (Math.abs(cp) / 100).toFixed(2);
}

// visits of a position; its node does not count those of moves that were searched apart
export const visitsOf = ({ visits, moves }) => Math.max(visits, 1 + moves.reduce((sum, { n }) => sum + n, 0));

// values of the side to move of a position, as White sees them
export const forWhite = ({ q, cp, mate }, fen) => ({ q: whites(q, fen), cp: whites(cp, fen), mate: whites(mate, fen) });

// values of White as a coloured score, and those of the side to move
export function whiteChip({ q, ...worth }) {
  return q === null || q === undefined ? h("span", { class: "muted", text: "–" })
    : Object.assign(h("span", { class: `chip ${tint(q)}`, title: `Q ${signed(q)}`, text: score(worth) }), { numeric: true });
}
export const chip = (values, fen) => whiteChip(forWhite(values, fen));

// what a move loses, in pawns
export const pawns = (cp) => (cp === null || cp === undefined ? "" : (cp / 100).toFixed(2));

export function proven([lower, upper], fen) {
  const [us, them] = fen.split(" ")[1] === "w" ? ["White", "Black"] : ["Black", "White"];
  if (lower === upper) return [`${them} wins`, "draw", `${us} wins`][lower + 1];
  return lower === 0 ? `${us} holds` : upper === 0 ? `${them} holds` : "";
}

// blue for what is good for the side that counts, orange for what is bad, grey between: told apart by everyone
export function tint(q) {
  const level = Math.max(-4, Math.min(4, Math.round(q * 8)));
  return `q${level < 0 ? "m" : "p"}${Math.abs(level)}`;
}

// rows of cells under headings, which are texts or elements; columns of numbers stand on the right; `mark(tr, k)` gets each row
export function table(columns, rows, { caption = "", empty = "Nothing yet.", kind = "", mark = () => {} } = {}) {
  if (!rows.length) return h("p", { class: "note", text: empty });
  const kinds = columns.map((_, k) => (rows.every((row) => isNumeric(row[k])) ? "number" : null));
  const body = rows.map((row, k) => {
    const tr = h("tr", {}, row.map((cell, at) => h("td", { class: kinds[at] }, cell instanceof Node ? cell : plain(cell))));
    mark(tr, k);
    return tr;
  });
  const heads = columns.map((name, k) => (name instanceof Node ? name : h("th", { scope: "col", class: kinds[k], text: name })));
  return h("div", { class: `scroll ${kind}`, tabindex: "0", role: "region", "aria-label": caption },
    h("table", { class: "data" }, caption && h("caption", { text: caption }), h("thead", {}, h("tr", {}, heads)), h("tbody", {}, body)));
}

const isNumeric = (cell) => !cell || typeof cell === "number" || cell.numeric || /^([+−]?[\d.,]+%?|–)$/.test(cell);
const plain = (cell) => String(typeof cell !== "number" ? cell || "" : Number.isInteger(cell) ? whole.format(cell) : cell.toFixed(3));

// a heading that sorts; `order` is { by, down }
export const sortHead = (key, title, order, onclick, attributes = {}) => h("th", { scope: "col", "aria-sort": order.by !== key ? null : order.down ? "descending" : "ascending", ...attributes },
  h("button", { type: "button", "data-focus": `sort ${key}`, text: title + (order.by === key ? (order.down ? " ▾" : " ▴") : ""), onclick }));
