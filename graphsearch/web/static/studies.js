// The list of studies: open, new, rename, delete, PGN in and out.

import { ask, send, upload } from "./api.js";
import { asked, count, h, put, table, when } from "./dom.js";
import { state, tell, toast } from "./state.js";

const $ = (id) => document.getElementById(id);

export function studiesDialog({ open, keep, renamed, savePgn, pane, closed }) {
  const dialog = $("studies");
  const list = h("div", { id: "study-list" });
  const told = h("ul", { class: "plain", id: "left-out" });
  const name = h("input", { id: "study-name", size: 24, spellcheck: "false" });
  const file = h("input", { type: "file", id: "study-file", accept: ".pgn,.gz,.zst", class: "hidden", onchange: take });
  const tools = h("div", {});

  const create = async (event) => {
    event.preventDefault();
    await keep(name.value.trim());
    name.value = "";
    dialog.close();
  };

  async function take() {
    const [one] = file.files;
    if (!one) return;
    const found = await upload("study-import", {}, one);
    file.value = "";
    put(told, found.left_out.slice(0, 200).map((reason) => h("li", { text: reason })), found.found > 200 && h("li", { text: `and ${count(found.found - 200)} more` }));
    tell("edited");
    if (found.studies.length === 1) await open(found.studies[0].id);
    if (found.studies.length === 1 && !found.found) dialog.close();
    else await load();
  }

  const row = (study) => [
    h("button", { type: "button", class: "link", text: study.name, "aria-current": study.id === pane().study ? "true" : null, onclick: async () => { await open(study.id); dialog.close(); } }),
    study.moves, when(study.changed),
    h("span", { class: "row" }, h("a", { class: "button", href: `/api/study-pgn?id=${study.id}`, text: "PGN", "aria-label": `PGN of ${study.name}` }),
      !closed() && h("button", { type: "button", text: "Rename", "aria-label": `Rename ${study.name}`, onclick: () => rename(study) }),
      !closed() && h("button", { type: "button", text: "Delete", "aria-label": `Delete ${study.name}`, onclick: () => remove(study) })),
  ];

  async function remove(study) {
    if (!await asked(`Delete ${study.name}?`, "Delete")) return;
    await send("study-delete", { id: study.id, revision: study.revision });
    tell("edited");
    toast(`The study ${study.name} is deleted; Ctrl-Z brings it back.`);
    await load();
  }

  async function rename(study) {
    const name = await asked(`The new name of ${study.name}`, "Rename", study.name);
    if (name === null) return;
    renamed(await send("study-change", { id: study.id, revision: study.revision, name }));
    await load();
  }

  async function load() {
    const { studies } = await ask("studies");
    put(list, table(["Study", "Moves", "Changed", "Actions"], studies.map(row), { caption: "Studies of this file", empty: "There are no studies yet." }));
    put(tools, closed() ? h("p", { class: "note", text: closed() }) : h("div", { class: "row" },
      h("form", { class: "inline", onsubmit: create }, h("label", { for: "study-name", text: "Keep what is on the board as" }), name, h("button", { class: "primary", text: "New study" })),
      h("label", { class: "button", text: "PGN in… " }, file)),
    h("p", { class: "row" }, h("a", { class: "button", href: "/api/study-pgn", text: "All studies as PGN", hidden: !studies.length }), h("button", { type: "button", id: "tree-pgn", text: "What is shown as PGN", onclick: savePgn })));
  }

  const show = async () => {
    put(told);
    put(list); // rows of before have old revisions
    await load();
    if (!dialog.open) dialog.showModal();
  };

  put(dialog, h("div", { class: "row" }, h("h2", { id: "studies-title", text: "Studies" }), h("span", { class: "grow" }), h("button", { type: "button", text: "Close", onclick: () => dialog.close() })),
    tools, told, list);

  return { show, keep: async () => { await show(); name.value ||= nameOf(state.game); name.select(); } };
}

const nameOf = (game) => {
  const { White: white = "", Black: black = "", Event: event = "" } = game?.headers || {};
  const players = [white, black].filter((each) => each && each !== "?").join(" – ");
  return players || (event !== "?" ? event : "");
};
