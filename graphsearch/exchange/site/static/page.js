// The page: a line from a root, the position that it stands at, and the views of it.

const page = { root: SITE.roots[0], steps: [], at: 0, sorting: { column: "", down: true }, view: "moves", turn: 0 };
const part = (name) => document.getElementById(name);
const board = new Board(part("board"), { onMove: (uci) => play(uci) });

if (SITE.black) board.flip(true);

const numberAt = (at) => (at ? page.steps[at - 1].number : page.root);

// ------------------------------------------------------------ where the line goes
function play(uci) {
  const move = page.here.moves.find((each) => each.uci === uci && each.child >= 0);
  if (!move) return show();
  const next = page.steps[page.at];
  if (!next || next.uci !== uci) page.steps = [...page.steps.slice(0, page.at), { uci, san: move.san, number: move.child }];
  return goTo(page.at + 1);
}

function goTo(at) {
  page.at = Math.max(0, Math.min(page.steps.length, at));
  return show();
}

async function jump(number) {
  const known = [page.root, ...page.steps.map((step) => step.number)].indexOf(number);
  if (known >= 0) return goTo(known);
  const follows = page.here.moves.find((move) => move.child === number);
  if (follows) return play(follows.uci);
  Object.assign(page, await pathTo(number));
  return goTo(page.steps.length);
}

async function readAddress() {
  const [root, ...moves] = decodeURIComponent(location.hash.slice(1)).split("/");
  page.root = SITE.roots.includes(Number(root)) && root !== "" ? Number(root) : SITE.roots[0];
  page.steps = [];
  for (const uci of moves) {
    const here = await positionOf(numberAt(page.steps.length));
    const move = here.moves.find((each) => each.uci === uci && each.child >= 0);
    if (!move) break;
    page.steps.push({ uci, san: move.san, number: move.child });
  }
  return goTo(page.steps.length);
}

// ------------------------------------------------------------ showing it
async function show() {
  const turn = (page.turn += 1);
  const here = await positionOf(numberAt(page.at));
  if (turn !== page.turn) return;
  page.here = here;
  const address = `#${[page.root, ...page.steps.slice(0, page.at).map((step) => step.uci)].join("/")}`;
  if (location.hash !== address && (location.hash || page.at)) history.replaceState(null, "", address);
  showBoard();
  showLine();
  await Promise.all([showView(turn), showValues(turn)]);
  document.body.dataset.shown = String(here.number);
}

function arrowsOf(moves) {
  const most = Math.max(1, ...moves.map((move) => move.n));
  return moves.slice(0, 3).map((move, k) => ({ move: move.uci, width: (move.n / most) ** 0.5, kind: k ? "other" : "best", label: `${move.san}: N ${count(move.n)}` }));
}

function showBoard() {
  const { here } = page;
  const last = page.at ? page.steps[page.at - 1] : null;
  const men = menOf(here.fen);
  const king = Object.keys(men).find((square) => men[square] === (here.white ? "wk" : "bk"));
  board.show({
    fen: here.fen,
    legal: here.moves.filter((move) => move.child >= 0).map((move) => move.uci),
    last: last?.uci ?? null,
    check: last && /[+#]$/.test(last.san) ? king : null,
    arrows: arrowsOf(here.moves),
  });
  const facts = [
    here.n === null ? "" : `N ${count(here.n)}`,
    here.q === null ? "" : `Q ${signed(here.whiteQ)} for White`,
    here.mate === null ? "" : `mate ${mateText(here.white ? here.mate : -here.mate)}`,
    here.note, here.state ? `book: ${here.state}` : "",
  ].filter(Boolean).join(" \u00b7 ");
  part("facts").textContent = facts;
  part("fen").value = here.fen;
}

async function showLine() {
  const fen = (await positionOf(page.root)).fen;
  let [number, white] = [Number(fen.split(" ")[5]), fen.split(" ")[1] === "w"];
  const items = [el("button", { type: "button", "aria-current": page.at === 0 ? "step" : null, onclick: () => goTo(0) }, "Start")];
  page.steps.forEach((step, k) => {
    if (white || !k) items.push(el("span", { class: "quiet" }, `${number}${white ? "." : "\u2026"}`));
    items.push(el("button", { type: "button", "aria-current": page.at === k + 1 ? "step" : null, onclick: () => goTo(k + 1) }, step.san));
    if (!white) number += 1;
    white = !white;
  });
  part("line").replaceChildren(...items);
}

async function showView(turn) {
  const go = (move) => (move.child >= 0 ? play(move.uci) : null);
  const point = (move) => board.setArrows(move ? [{ move: move.uci, width: 0.7, kind: "hover" }] : arrowsOf(page.here.moves));
  const sort = ({ name, text }) => {
    page.sorting = { column: name, down: page.sorting.column === name ? !page.sorting.down : !text };
    showView(page.turn);
  };
  const made = {
    moves: () => movesTable(page.here, page.sorting, { go, point, sort }),
    graph: async () => picture(await neighbourhood(page.here.number, Number(part("levels").value), Number(part("most").value)), part("view").clientWidth - 20, jump),
    ways: () => waysList(page.here, jump),
  };
  const element = await made[page.view]();
  if (turn !== page.turn) return;
  part("sliders").hidden = page.view !== "graph";
  part("view").replaceChildren(element);
  if (page.view === "graph") centre(part("view"), element.querySelector(".here").getBoundingClientRect());
}

function centre(view, box) {
  const frame = view.getBoundingClientRect();
  view.scrollTop += box.top + box.height / 2 - frame.top - frame.height / 2;
  view.scrollLeft += box.left - frame.left - 16;
}

async function showValues(turn) {
  const points = [];
  for (let at = 0; at <= page.at; at += 1) {
    const name = at ? page.steps[at - 1].san : "start";
    points.push({ ...(await positionOf(numberAt(at))), name });
  }
  const seen = new Set(points.map((point) => point.number));
  for (let last = points.at(-1), k = 0; k < 16; k += 1) {
    const move = last.moves.find((each) => each.child >= 0);
    if (!move || seen.has(move.child)) break;
    last = { ...(await positionOf(move.child)), name: move.san, uci: move.uci };
    seen.add(last.number);
    points.push(last);
  }
  if (turn !== page.turn) return;
  const go = (k) => {
    if (k > page.at) page.steps = [...page.steps.slice(0, page.at), ...points.slice(page.at + 1, k + 1).map((p) => ({ uci: p.uci, san: p.name, number: p.number }))];
    goTo(k);
  };
  part("values").replaceChildren(valuesPlot(points, page.at, part("values").clientWidth - 10, go));
}

// ------------------------------------------------------------ what a person does
function choose(view) {
  page.view = view;
  for (const tab of document.querySelectorAll("[role=tab]")) tab.setAttribute("aria-selected", String(tab.dataset.view === view));
  return showView(page.turn);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  part("theme").textContent = theme === "dark" ? "Light" : "Dark";
  if (page.here) showView(page.turn);
}

const KEYS = {
  ArrowLeft: () => goTo(page.at - 1),
  ArrowRight: () => (page.steps[page.at] || !page.here.moves.some((move) => move.child >= 0) ? goTo(page.at + 1) : play(page.here.moves.find((move) => move.child >= 0).uci)),
  Home: () => goTo(0),
  End: () => goTo(page.steps.length),
  f: () => board.flip(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) return;
  const action = KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

for (const tab of document.querySelectorAll("[role=tab]")) tab.addEventListener("click", () => choose(tab.dataset.view));
for (const name of ["levels", "most"]) {
  part(name).addEventListener("input", () => {
    part(`${name}-shown`).textContent = part(name).value;
    showView(page.turn);
  });
}
for (const [name, key] of [["first", "Home"], ["back", "ArrowLeft"], ["on", "ArrowRight"], ["last", "End"], ["flip", "f"]]) {
  part(name).addEventListener("click", () => KEYS[key]());
}
part("theme").addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
addEventListener("hashchange", readAddress);
addEventListener("resize", () => page.here && showValues(page.turn));
if (SITE.roots.length > 1) {
  part("roots").hidden = false;
  part("roots").addEventListener("change", () => { Object.assign(page, { root: Number(part("roots").value), steps: [] }); goTo(0); });
}
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
readAddress();
