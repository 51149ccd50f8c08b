// What is done with the move on the board: comment, glyphs, its place among variations, deleting, copying.

import { said } from "./chess.js";
import { asked, h, points, put, showMenu } from "./dom.js";
import { glyph, MOVE_GLYPHS, VALUE_GLYPHS } from "./notation_view.js";
import { lineItems } from "./repertoire_row.js";
import { START_NODE } from "./tree.js";

const $ = (id) => document.getElementById(id);

export function editor({ change, here, pane, isClosed }) {
  let open = false; // whether the comment is being written
  let shown = {}; // the node, its tree (a study that is opened again has another), and all else that is drawn

  const set = (node, nags) => change(pane().tree.set(node.id, { nags: [...nags].sort((a, b) => a - b) }));

  function glyphs(node) {
    const has = new Set(node.nags);
    const without = (some) => node.nags.filter((nag) => !some.includes(nag));
    const marks = MOVE_GLYPHS.map((nag) => h("button", {
      type: "button", class: "glyph", "aria-pressed": String(has.has(nag)), text: glyph(nag), "aria-label": `Glyph ${glyph(nag)}`,
      onclick: () => set(node, has.has(nag) ? without([nag]) : [...without(MOVE_GLYPHS), nag]),
    }));
    const chosen = VALUE_GLYPHS.find((nag) => has.has(nag)) || "";
    const value = h("select", { id: "glyph-value", "aria-label": "Judgement of the position", onchange: (event) => set(node, [...without(VALUE_GLYPHS), ...(event.target.value ? [Number(event.target.value)] : [])]) },
      h("option", { value: "", text: "judge" }), VALUE_GLYPHS.map((nag) => h("option", { value: nag, selected: nag === chosen, text: glyph(nag) })));
    return [h("span", { class: "glyphs" }, marks), value];
  }

  const act = (id, text, title, onclick, off = false) => h("button", { type: "button", id, text, title, disabled: off, onclick });

  function moveTools(node) {
    const { tree, root } = pane();
    const branch = tree.branch(node.id);
    const kids = branch === null ? [] : tree.node(tree.node(branch).parent).kids;
    // the nearest move up the line that has a variation behind it
    const leading = tree.path(node.id).findLast((each) => tree.node(each.parent).kids.at(-1) !== each.id);
    const line = () => navigator.clipboard?.writeText(lineOf(node)).catch(() => {});
    return [
      act("promote", "Promote", "Move the variation up; at the top it is the main line", () => change(tree.shift(branch, -1)), branch === null),
      act("demote", "Demote", "Move this move's line down among its variations", () => change(tree.shift(leading.id, 1)), !leading),
      act("delete-move", "Delete", "Delete this move and all behind it", () => remove(node)),
      kids.length > 0 && act("delete-line", "Delete variation", "Delete the whole variation", () => remove(tree.node(branch))),
      act("to-repertoire", "To repertoire…", "Add the moves up to here to a repertoire", (event) => showMenu($("line-menu"), event.currentTarget, lineItems(root, tree.path(node.id).map((each) => each.move)))),
      act("copy-line", "Copy line", "Copy the moves up to here and on", line),
    ];
  }

  async function remove(node) {
    const { tree } = pane();
    const below = tree.below(node.id);
    if (below && !await asked(`Delete ${node.san} and the ${points(below, "move")} behind it?`, "Delete")) return;
    if (pane().tree === tree && tree.node(node.id)) change(tree.remove(node.id), { to: node.parent });
  }

  function lineOf(node) {
    const { tree, root } = pane();
    return said(root, [...tree.path(node.id), ...tree.rest(node.id)].map((each) => each.san));
  }

  function words(node) {
    const { tree } = pane();
    const isStart = node.id === START_NODE;
    const begins = !isStart && tree.node(node.parent).kids[0] !== node.id;
    const area = (id, label, text, write) => h("div", {}, h("label", { for: id, text: label }),
      h("textarea", { id, rows: 3, value: text, onchange: (event) => write(event.target.value.trim()), onkeydown: (event) => { if (event.key === "Escape") { event.target.blur(); toggle(); } } }));
    return h("div", { class: "words" },
      begins && area("comment-before", "Comment before the variation", node.before, (text) => change(tree.set(node.id, { before: text }))),
      isStart ? area("comment", "Comment before the first move", pane().comment, (text) => { pane().comment = text; change({ comment: text, says: true }); })
        : area("comment", `Comment on ${node.san}`, node.comment, (text) => change(tree.set(node.id, { comment: text }))));
  }

  function toggle() { open = !open; show(); if (open) $("comment")?.focus(); }

  function show() {
    const node = here();
    const host = $("edit");
    host.hidden = !node || Boolean(isClosed());
    if (host.hidden) { shown = {}; return; }
    const typed = document.activeElement?.closest("#edit textarea");
    const { tree } = pane();
    if (typed && shown.tree === tree && shown.id === node.id) return; // what is being written stays
    const isStart = node.id === START_NODE;
    const all = JSON.stringify([pane().study, node, open, tree.size, tree.branch(node.id), isStart || tree.node(node.parent).kids, pane().comment]);
    if (shown.all === all) return;
    shown = { tree, id: node.id, all };
    const focus = document.activeElement?.closest("#edit") ? document.activeElement.id : "";
    put(host, h("div", { class: "row" },
      h("button", { type: "button", id: "write", "aria-expanded": String(open), text: "Comment", title: "Write a comment (w)", onclick: toggle }), !isStart && glyphs(node), !isStart && moveTools(node)),
    open && words(node));
    if (focus) $(focus)?.focus({ preventScroll: true });
  }

  return { show, comment: () => { if (!open) toggle(); else $("comment")?.focus(); } };
}
