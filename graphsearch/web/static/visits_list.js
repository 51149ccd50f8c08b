// The list of positions that changed since the last visit.

import { wayTo } from "./books.js";
import { chip, h, put, table } from "./dom.js";

export async function showChanges(since, answer, proofOf) {
  const dialog = document.getElementById("changes");
  const close = h("button", { type: "button", text: "Close", onclick: () => dialog.close() });
  put(dialog, h("div", { class: "row" }, h("h2", { id: "changes-title", text: `Changed since ${since}` }), h("span", { class: "grow" }), close), h("p", { class: "note", text: "Scores in pawns, White's view." }));
  dialog.showModal();
  const rows = await answer;
  const cells = rows.changes.map((row) => {
    const way = wayTo(row);
    way.addEventListener("click", () => dialog.close());
    return [way, row.old.best_san || "", row.new.best_san || "", chip(row.old, row.position), chip(row.new, row.position), proofOf(row), row.new.n];
  });
  dialog.append(table(["Line", "Best before", "Best", "Score before", "Score", "Proven", "Visits"], cells, { caption: "Changed positions" }));
}
