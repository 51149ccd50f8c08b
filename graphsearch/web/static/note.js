// The note on the position, whatever line reached it, and the studies that reach it.

import { ask, latest, send } from "./api.js";
import { h, put } from "./dom.js";
import { here, state, tell } from "./state.js";

const WAIT_MS = 120; // a held arrow key asks once
const NOTHING = { text: "", revision: 0, studies: [] };

export function noteOn(host, { toast, closed, open }) {
  const last = latest();
  let known = NOTHING;
  let place = null; // the position whose note the field holds
  let typed = false; // whether the field holds more than was saved
  let timer = 0;
  const area = h("textarea", { id: "note-text", rows: 3, "aria-label": "Note on this position", placeholder: "A note on this position, seen from every line that reaches it", oninput: () => { typed = true; }, onchange: save });
  const title = h("span", {});
  const more = h("p", { class: "note" });
  put(host, h("summary", {}, title), area, more);

  function draw() {
    if (!typed) area.value = known.text;
    area.readOnly = Boolean(closed());
    title.textContent = known.text ? `Note: ${known.text.split("\n")[0].slice(0, 120)}` : "Note on this position";
    host.classList.toggle("has", Boolean(known.text));
    put(more, closed() ? `${closed()} ` : null, known.studies.length > 0 && h("span", { text: "In studies: " }),
      known.studies.map((study) => h("button", { type: "button", class: "link", text: study.name, onclick: () => open(study.id, { node: study.move }).catch((error) => toast(error.message)) })));
  }

  function take(found) {
    if (typed && found.text && found.text !== known.text) area.value = `${found.text}\n${area.value}`; // somebody else wrote, too
    known = found;
    draw();
  }

  async function save() {
    const [mine, text] = [place, area.value];
    try {
      const found = await send("note", { ...mine, text, revision: known.revision });
      tell("edited");
      if (mine === place) { typed = area.value !== text; take(found); }
    } catch (error) {
      toast(error.message);
      if (mine === place) load();
    }
  }

  function load() {
    const mine = place;
    last(ask("note", mine), (found) => { if (mine === place) take(found); }, (error) => toast(error.message));
  }

  return {
    show() {
      if (!state.look) return;
      if (document.activeElement === area) area.blur(); // what was typed is saved where it belongs
      [place, known, typed] = [here(), NOTHING, false];
      draw();
      clearTimeout(timer);
      timer = setTimeout(load, WAIT_MS);
    },
    news() { if (!typed && place) load(); },
    state: draw,
  };
}
