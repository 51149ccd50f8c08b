// The repertoire of a side: its gaps and weak spots, and its moves as a tree that unfolds.

import { ask, latest, upload } from "./api.js";
import { said, START } from "./chess.js";
import { chip, count, h, link, percent, points, put, short, table } from "./dom.js";
import { open, played, state, tell } from "./state.js";
import { changeRepertoire, SIDES } from "./moves.js";

const GLYPHS = { 2: "?", 4: "??", 6: "?!" };
const MOST_ROWS = 20; // of gaps, unless all are asked for
let side = "white";
const unfolded = new Set(); // places in the tree, as `root moves`

const placeOf = (one) => `${one.root} ${one.moves.join(" ")}`;
const startText = (root) => (root === START ? "start" : root);
const lineText = ({ root, line }) => (line.length ? said(root, line) : startText(root));
const go = ({ root, moves }, ...more) => open({ root, line: [...moves, ...more] });
const glyphOf = (move) => GLYPHS[move.nag] || "";

export const repertoireView = {
  name: "repertoire",
  make(host) {
    const last = latest();
    const sides = h("div", { class: "row", role: "group", "aria-label": "Whose repertoire" });
    const body = h("div", {});
    const told = h("p", { class: "note", role: "status" });
    put(host, sides, told, body);

    const load = () => last(ask("repertoire", { side }), draw, (error) => put(body, h("p", { class: "failed", text: error.message })));
    const choose = (other) => { side = other; drawSides(); load(); };
    const drawSides = () => put(sides, Object.entries(SIDES).map(([name, title]) => h("button", { type: "button", id: `repertoire-${name}`, "aria-pressed": String(name === side), text: `${title} repertoire`, onclick: () => choose(name) })));

    function draw(found) {
      const replies = found.moves - found.own;
      put(body, found.moves ? h("p", { text: `${points(found.own, "own move")}, ${count(replies)} ${replies === 1 ? "reply" : "replies"}; ${points(found.gaps.length, "gap")}, ${points(found.weak.length, "weak spot")}.` })
        : h("p", { class: "note", text: "It is empty. Play a line on the board and add it, use ⋯ beside a move, or take a PGN in." }),
      tools(found), found.moves > 0 && [gaps(found), weak(found), tree(found)].flat());
    }

    function tools(found) {
      const file = h("input", { type: "file", id: "repertoire-file", accept: ".pgn,.gz,.zst", class: "hidden", onchange: takeIn });
      const add = () => changeRepertoire(side, { root: state.root, line: played() }).then(load);
      return h("div", { class: "row" },
        found.closed ? h("span", { class: "note", text: found.closed }) : [
          h("button", { type: "button", id: "add-board-line", text: "Add the line on the board", disabled: !state.at, onclick: add }),
          h("label", { class: "button", text: "PGN in… " }, file)],
        found.moves > 0 && [h("a", { class: "button", href: `/api/repertoire-file?side=${side}`, text: "PGN" }),
          h("a", { class: "button", href: `/api/repertoire-file?side=${side}&form=toml`, text: "Book (TOML)", title: "graphsearch book build answers what is missing" })]);
    }

    async function takeIn(event) {
      const [file] = event.target.files;
      if (!file) return;
      const found = await upload("repertoire-import", { side }, file);
      told.textContent = [`${points(found.added, "move")} added.`, ...found.left_out.slice(0, 20).map((reason) => `Left out: ${reason}`), found.found > 20 ? `and ${found.found - 20} more` : ""].join(" ");
      tell("edited");
      load();
    }

    function gaps(found) {
      const rows = found.gaps.slice(0, MOST_ROWS).map((gap) => [link(lineText(gap), () => go(gap)), link(gap.san, () => go(gap, gap.reply), "Go there and choose an answer"),
        percent(gap.reach), gap.p === null ? "" : percent(gap.p), gap.n, gap.games]);
      const more = found.gaps.length > MOST_ROWS ? `The ${MOST_ROWS} likeliest of ${found.gaps.length}` : "Gaps";
      return found.gaps.length > 0 && table(["After", "No answer to", "Met in", "P", "Visits", "Games"], rows, { caption: `${more}: likely replies without an answer` });
    }

    function weak(found) {
      const rows = found.weak.slice(0, MOST_ROWS).map((spot) => [link(lineText(spot), () => go(spot)), link(`${spot.move.san}${glyphOf(spot.move)}`, () => go(spot, spot.move.move)),
        spot.move.q === null ? "never searched" : chip(spot.move, spot.position), spot.move.loss === null ? "" : spot.move.loss.toFixed(3), spot.move.best_san || ""]);
      return found.weak.length > 0 && table(["After", "Own move", "Score", "Loss of Q", "Best"], rows, { caption: "Weak spots: own moves that lose, or that no search knows" });
    }

    function tree(found) {
      const byKey = new Map(found.positions.map((one) => [one.key, one]));
      const missing = Map.groupBy(found.gaps, (gap) => gap.position);
      const roots = found.positions.filter((one) => !one.moves.length && one.replies.length);
      return roots.map((root) => [roots.length > 1 && h("h3", { text: root.position === START ? "From the start" : root.position }),
        listOf(root, { byKey, missing, closed: found.closed }, "Moves of the repertoire")]).flat();
    }

    function listOf(one, all, label = null) {
      const known = new Set(one.replies.map((move) => move.move));
      const open_ = (all.missing.get(one.position) || []).filter((gap) => !known.has(gap.reply));
      return h("ul", { class: "repertoire", "aria-label": label }, one.replies.map((move) => itemOf(one, move, all)), open_.map((gap) => gapItem(one, gap)));
    }

    function gapItem(one, gap) {
      return h("li", { class: "gap" }, h("span", { class: "fold" }), link(said(one.position, [gap.san]), () => go(one, gap.reply)), h("span", { class: "muted", text: ` ${percent(gap.share, 0)} ` }), h("span", { class: "proof", text: "no answer" }));
    }

    function itemOf(one, move, all) {
      const child = all.byKey.get(move.child);
      const isHere = child && child.root === one.root && child.moves.length === one.moves.length + 1 && child.moves.at(-1) === move.move && child.moves.slice(0, -1).join() === one.moves.join();
      const has = isHere && (child.replies.length > 0 || all.missing.has(child.position));
      const item = h("li", {});
      const below = h("div", {});
      const fold = has && h("button", { type: "button", class: "fold quiet", onclick: () => unfold(!unfolded.has(placeOf(child))) });
      const unfold = (isOpen) => {
        if (isOpen) unfolded.add(placeOf(child)); else unfolded.delete(placeOf(child));
        if (isOpen && child.replies.length === 1 && !all.missing.has(child.position)) { // to the next fork
          const next = all.byKey.get(child.replies[0].child);
          if (next) unfolded.add(placeOf(next));
        }
        showFold();
      };
      const showFold = () => {
        const isOpen = unfolded.has(placeOf(child));
        fold.textContent = isOpen ? "▾" : "▸";
        fold.setAttribute("aria-expanded", String(isOpen));
        fold.setAttribute("aria-label", `Moves after ${move.san}`);
        put(below, isOpen && listOf(child, all));
      };
      put(item, fold || h("span", { class: "fold" }), link(said(one.position, [move.san]) + glyphOf(move), () => go(one, move.move)), " ", facts(one, move, child, isHere, all),
        !all.closed && h("button", { type: "button", class: "quiet act", title: "Remove, with all that only it reaches", "aria-label": `Remove ${move.san}`, text: "✕", onclick: () => changeRepertoire(side, { root: one.root, line: [...one.moves, move.move] }, { remove: move.san }).then(load) }), below);
      if (has) { if (!one.moves.length && one.replies.length === 1) unfolded.add(placeOf(child)); showFold(); }
      return item;
    }

    function facts(one, move, child, isHere, { missing }) {
      const opening = child?.opening !== one.opening && child?.opening;
      return h("span", {}, chip(move, one.position), h("span", { class: "muted", text: ` ${move.n ? short(move.n) : "never searched"}${one.own ? "" : `, ${percent(move.share, 0)}`}${move.games ? `, ${points(move.games, "game")}` : ""} ` }),
        missing.get(one.position)?.some((gap) => gap.reply === move.move) && h("span", { class: "proof", text: "no answer" }),
        child && !isHere && link(`→ ${lineText(child)}`, () => go(child), "Goes on there"), isHere && opening && h("span", { class: "note", text: ` ${opening}` }));
    }

    drawSides();
    return { show: load, on: { file: load, position: () => { const button = host.querySelector("#add-board-line"); if (button) button.disabled = !state.at; } } };
  },
};
