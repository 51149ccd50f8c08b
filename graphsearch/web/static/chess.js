// Positions as the board shows them. No rules here: whoever sends moves has found them legal.

export const START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

// {e1: "wk", ...}
export function menOf(fen) {
  const men = {};
  fen.split(" ")[0].split("/").forEach((row, k) => {
    let file = 0;
    for (const letter of row) {
      if (/\d/.test(letter)) file += Number(letter);
      else {
        men["abcdefgh"[file] + (8 - k)] = (letter === letter.toUpperCase() ? "w" : "b") + letter.toLowerCase();
        file += 1;
      }
    }
  });
  return men;
}

// moves in SAN with their numbers, from a FEN, null being the start position
export function said(start, sans) {
  const [, turn, , , , number] = (start || START).split(" ");
  let [white, at] = [turn === "w", Number(number)];
  return sans.map((san, k) => {
    const text = white ? `${at}. ${san}` : k ? san : `${at}… ${san}`;
    if (!white) at += 1;
    white = !white;
    return text;
  }).join(" ");
}

export const turnOf = (fen) => fen.split(" ")[1];

// where king and rook stand before and after castling, which is written as the king's two steps or as the king
// taking his rook; null if a move is none
export function castlingOf(men, move) {
  const [from, to] = [move.slice(0, 2), move.slice(2, 4)];
  const man = men[from];
  if (man?.[1] !== "k" || from[1] !== to[1]) return null;
  const takes = men[to] === `${man[0]}r`;
  if (!takes && Math.abs(from.charCodeAt(0) - to.charCodeAt(0)) !== 2) return null;
  const right = to > from;
  const rook = takes ? to : (right ? "h" : "a") + to[1];
  return { king: from, rook, kingTo: (right ? "g" : "c") + to[1], rookTo: (right ? "f" : "d") + to[1] };
}

// the men after a move, given in UCI; the clocks, and what may castle, are not kept
export function after(men, move) {
  const [from, to, promoted] = [move.slice(0, 2), move.slice(2, 4), move[4]];
  const next = { ...men };
  const man = next[from];
  if (!man) return next;
  delete next[from];
  const castling = castlingOf(men, move);
  if (castling) {
    delete next[castling.rook];
    return { ...next, [castling.kingTo]: man, [castling.rookTo]: `${man[0]}r` };
  }
  if (man[1] === "p" && from[0] !== to[0] && !men[to]) delete next[to[0] + from[1]];
  next[to] = promoted ? man[0] + promoted : man;
  return next;
}

export const NAMES = { k: "king", q: "queen", r: "rook", b: "bishop", n: "knight", p: "pawn" };

// what a screen reader says of a position
export function spoken(fen) {
  const men = menOf(fen);
  const side = (colour) => "kqrbnp".split("").map((kind) => {
    const squares = Object.keys(men).filter((square) => men[square] === colour + kind).sort();
    return squares.length ? `${NAMES[kind]}${squares.length > 1 ? "s" : ""} ${squares.join(" ")}` : "";
  }).filter(Boolean).join(", ");
  return `White: ${side("w")}. Black: ${side("b")}. ${turnOf(fen) === "w" ? "White" : "Black"} to move.`;
}
