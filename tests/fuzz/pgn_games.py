"""Compares our reading of PGN with `chess.pgn` on generated and mutated games.

`python -m tests.fuzz.pgn_games --games 100000 --seed 1` prints a table. Exit code 1 if a game that
`chess.pgn` reads without an error is read as another one, or is refused without a reason that the rules
allow (REASONS), or if the sound game behind it is lost.
"""

from __future__ import annotations

import argparse
import io
import logging
import random
import sys
from collections import Counter

import chess
import chess.pgn

from graphsearch.exchange.pgn_import import KIND_SHIFT, WING_SHIFT, sure_game
from graphsearch.position.board import encode_move
from graphsearch.position.pgn import OPEN_COMMENT, GameText, ReadGame, cut_games, read_game

logging.getLogger("chess.pgn").setLevel(logging.CRITICAL)

SAME, JOINED, NOTHING = (
    "read the same",
    "read whole, where chess.pgn stops at a blank line",
    "chess.pgn has an error",
)
OF_TAG = "chess.pgn takes a word of a tag for a move or a comment"
NEXT = "a new game begins with move 1 behind a result, or with an Event tag in an open comment"
BROKEN = "an error behind a blank line, where chess.pgn stops"
REASONS = {
    "which is not a move": "a skipped word could be a move",
    "moves in a line of tags": "a skipped tag line has moves",
    "a comment that does not end": "an open comment has moves",
    "FEN": "no legal first position",
    "illegal position": "no legal first position",
    "out of range": "no legal first position",
    "variant": "another variant",
}
BASES = 300  # different games before mutation
SOUND = '\n\n[Event "Sound"]\n[Result "1-0"]\n\n1. d4 d5 1-0\n'
WORDS = (
    "e4", "Nf3", "O-O", "0-0-0", "OO", "O\u2013O", "0000", "--", "Z0", "@@@@", "12.", "1.", "1...", "(", ")",
    "{", "}", ";", "$1", "$999", "!?", "*", "1-0", "0-1", "1/2", "1/2-1/2", "[diagram]", '[White "A"]',
    '[Event "B"]', '[ECO"C50"]', '[White Elo "2000"]', "[Event London]", "%", "resigns", "N", "ed", "Sf3",
    "\u2658f3", "=", "+-",
    "e.p.", "\u00a0", "\u200b", "\ufeff", "\u2026", "\n", "\n\n", "\n%\n", "\r\n", "[", "]", '"', ",",
    "and", "a",
)  # fmt: skip
LETTERS = "abcdefghNBRQKPOo0123456789x-+#=.!?$(){}[];%*/\"' \t\n\r\u00a0\u200b\u2013\u00e9"
HEADERS = (
    "", '[Event "A"]\n[Result "*"]\n\n',
    '[Event "A"]\n[Site "?"]\n[White "M\u00fcller, \\"X\\""]\n[Result "1-0"]\n\n',
    '[Event "x \u00a0 y"]\n[WhiteElo "2000"]\n[TimeControl "40/7200"]\n\n\n',
)  # fmt: skip
FENS = (
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "4k3/P7/8/8/8/8/7p/4K3 b - - 3 40",
    "bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9",
)


def generated(rng: random.Random) -> str:
    """Returns a game with variations, comments and glyphs, in one of several styles."""
    game = chess.pgn.Game()
    headers = rng.choice(HEADERS)
    if rng.random() < 0.15:
        board = chess.Board(rng.choice(FENS))
        game.setup(board)
        headers = f'[Event "A"]\n[SetUp "1"]\n[FEN "{board.fen()}"]\n\n'
    nodes: list[chess.pgn.GameNode] = [game]
    noted = rng.random() < 0.5
    for _ in range(rng.randrange(1, 24)):
        node = nodes[-1] if not noted or rng.random() < 0.8 else rng.choice(nodes)
        moves = list(node.board().legal_moves)
        if not moves:
            break
        child = node.add_variation(rng.choice(moves))
        if noted and rng.random() < 0.3:
            child.comment = rng.choice(("good", "[%clk 0:01:00]", "1. e4 (x", "a\n\nb", "\u00e9\u2013"))
            child.nags = set(rng.choice(((), (1,), (14, 6))))
        nodes.append(child)
    game.headers["Result"] = rng.choice(("*", "1-0", "0-1", "1/2-1/2"))
    text = str(game.accept(chess.pgn.StringExporter(headers=False, columns=rng.choice((None, 40, 80)))))
    if rng.random() < 0.3:
        text = text.replace(". ", ".")
    return headers + text + "\n"


def mutated(text: str, rng: random.Random) -> str:
    """Returns a text after some changes of letters, words and lines."""
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        at, what = rng.randrange(len(text) + 1), rng.randrange(9)
        end = at + rng.choice((1, 1, 2, 5))
        if what == 0:
            text = text[:at] + text[end:]
        elif what == 1:
            text = text[:at] + rng.choice(LETTERS) + text[at + 1 :]
        elif what == 2:
            text = text[:at] + rng.choice(LETTERS) + text[at:]
        elif what == 3:
            text = text[:at] + rng.choice(WORDS) + text[at:]
        elif what in (4, 5):
            words = text.split(" ")
            place = rng.randrange(len(words))
            words[place : place + (what == 5)] = [rng.choice(WORDS)]
            text = " ".join(words)
        elif what == 6:
            lines = text.split("\n")
            place = rng.randrange(len(lines))
            lines[place : place + rng.randrange(2)] = rng.choice(
                ([], [""], [lines[place]] * 2, [" " + lines[place]])
            )
            text = "\n".join(lines)
        elif what == 7:
            text = text[:at] + text[at:end][::-1] + text[end:]
        elif what == 8:
            text = text.replace("\n", "\r\n") if rng.random() < 0.1 else text[: max(1, at)]
    return text


def _moves(game: chess.pgn.Game) -> list[chess.Move]:
    """Returns the moves of a mainline up to its first null move."""
    found = list[chess.Move]()
    for move in game.mainline_moves():
        if not move:
            break
        found.append(move)
    return found


def sure_fault(text: GameText, game: ReadGame) -> str:
    """Returns how the import, which believes a game to be sure, reads it otherwise than `read_game`."""
    sure = sure_game(text)
    if not sure or "is illegal" in game.error or "is ambiguous" in game.error:
        return ""
    if game.error or game.variant or game.null_line or game.remarks or game.strays:
        return f"! sure, but python-chess finds faults: {text.moves!r}"
    board, features = (game.start or chess.Board()).copy(), list[int]()
    for move in game.moves:
        features.append(features_of(board, move))
        board.push(move)
    fits = all(found & move.mask == move.value for found, move in zip(features, sure.moves, strict=False))
    is_same = (sure.headers, sure.result, len(sure.moves)) == (game.headers, game.result, len(features))
    return "" if fits and is_same else f"! sure, but another game: {text.moves!r}"


def features_of(board: chess.Board, move: chess.Move) -> int:
    """Returns the features of a legal move, as the import gives them to legal moves."""
    kind, wing = (board.piece_type_at(move.from_square) or 1) - 1, 0
    if board.is_castling(move):
        wing = 1 if board.is_kingside_castling(move) else 2
    return encode_move(move) | kind << KIND_SHIFT | wing << WING_SHIFT


def compared(text: str) -> str:
    """Returns how the first game of a text is read; a text that begins with `!` if it is read wrongly."""
    games = [read_game(game) for game in cut_games(io.StringIO(text + SOUND))]
    for fault in filter(None, (sure_fault(game.text, game) for game in games)):
        return fault
    last = games[-1] if games else None
    if last is None or last.error or last.headers.get("Event") != "Sound" or len(last.moves) != 2:
        return f"! the sound game is lost: {text!r}"
    try:
        judge = chess.pgn.read_game(io.StringIO(text))
    except (IndexError, AssertionError):  # of unbalanced brackets
        return NOTHING
    if judge is None or judge.errors or not judge.variations:
        return NOTHING
    expected = _moves(judge)
    game = next((game for game in games[:-1] if game.text.has_moves or game.error), None)
    found = _judged(game, expected, text) if game else f"! no game is found: {text!r}"
    return OF_TAG if found.startswith("!") and _is_of_tag(text) else found


def _judged(game: ReadGame, expected: list[chess.Move], text: str) -> str:
    if game.variant:
        return "another variant"
    if game.error:
        reason = next((name for part, name in REASONS.items() if part in game.error), "")
        reason = reason or (BROKEN if _is_broken(game) else "")
        return reason or f"! refused, {game.error}: {text!r}"
    ours = list(game.tree.mainline_moves())
    if ours == expected:
        return SAME
    if ours[: len(expected)] == expected and "\n" in text.replace("\r", ""):
        return JOINED
    if ours == expected[: len(ours)] and (game.result or OPEN_COMMENT in dict(game.remarks).values()):
        return NEXT
    return (
        f"! {[move.uci() for move in ours]} is read instead of {[move.uci() for move in expected]}: {text!r}"
    )


def _is_of_tag(text: str) -> bool:
    """Returns whether the first move or comment that `chess.pgn` reads stands in a line of tags."""
    for line in io.StringIO(text):
        if any(match[1] or match[0][0] == "{" for match in chess.pgn.MOVETEXT_REGEX.finditer(line)):
            return line.replace("\ufeff", "").lstrip().startswith("[")
    return False


def _is_broken(game: ReadGame) -> bool:
    """Returns whether `chess.pgn`, too, finds an error in the moves if no blank line ends them."""
    headers = "".join(
        f'[{name} "{value}"]\n' for name, value in game.headers.items() if name in ("FEN", "SetUp")
    )
    moves = "".join(line for _, line in game.text.moves if not line.isspace())
    try:
        judge = chess.pgn.read_game(io.StringIO(f"{headers}\n{moves}"))
    except (IndexError, AssertionError):
        return True
    return judge is None or bool(judge.errors)


def run(games: int, seed: int, *, shown: int = 10) -> tuple[Counter[str], list[str]]:
    """Compares so many games; returns how many were read how, and the first wrong ones."""
    rng, counts, wrong = random.Random(seed), Counter[str](), list[str]()
    bases = list[str]()
    for number in range(games):
        if number % 200 == 0 or len(bases) < BASES:
            bases = [*bases[-BASES + 1 :], generated(rng)]
        found = compared(mutated(rng.choice(bases), rng))
        counts[found if not found.startswith("!") else "WRONG"] += 1
        if found.startswith("!") and len(wrong) < shown:
            wrong.append(found)
    return counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.pgn_games", description=__doc__)
    parser.add_argument("--games", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts, wrong = run(options.games, options.seed)
    for name, number in counts.most_common():
        print(f"{number:10,}  {name}")
    print(*wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
