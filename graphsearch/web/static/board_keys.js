// The board by keys: when the keyboard has gone to it, the arrow keys choose a square, Enter takes up and puts down.

const NAMES = { k: "king", q: "queen", r: "rook", b: "bishop", n: "knight", p: "pawn" };
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const FIRST = "e2";

// `say(text)` is for screen readers
export function boardKeys(board, say) {
  const { svg } = board;
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("role", "application");
  svg.setAttribute("aria-roledescription", "chess board: arrow keys choose a square, Enter moves");
  let last = FIRST;
  const show = (square) => { board.cursor = square; board.drawMarks(); };
  const about = (square) => {
    const man = board.state.men[square];
    return `${square}${man ? `, ${man[0] === "w" ? "white" : "black"} ${NAMES[man[1]]}` : ", empty"}`;
  };
  const step = ([right, up]) => {
    const turn = board.flipped ? -1 : 1;
    const file = Math.max(0, Math.min(7, last.charCodeAt(0) - 97 + turn * right));
    const rank = Math.max(1, Math.min(8, Number(last[1]) + turn * up));
    last = "abcdefgh"[file] + rank;
    show(last);
    say(about(last));
  };
  const act = () => {
    const { selected } = board;
    if (selected && selected !== last && board.tryMove(selected, last)) return;
    board.select(selected === last || !board.canMove(last) ? null : last);
    say(board.selected ? `${about(last)}, taken up` : `${about(last)}`);
  };
  svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) { show(last); say(about(last)); } });
  svg.addEventListener("blur", () => { show(null); });
  svg.addEventListener("pointerdown", () => show(null));
  svg.addEventListener("keydown", (event) => {
    if (event.target !== svg || event.ctrlKey || event.metaKey || event.altKey) return;
    if (STEPS[event.key]) step(STEPS[event.key]);
    else if (event.key === "Enter" || event.key === " ") act();
    else if (event.key === "Escape" && board.selected) board.select(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}
