"""Plays games between `graphsearch uci` and another UCI engine, with real clocks, and says how they went.

python -m tools.play_games --games 20 --tc 10+0.1 --engine stockfish --engine-option UCI_LimitStrength=true \
    --engine-option UCI_Elo=1350 --pgn games.pgn

Every opening is played twice, with both colours. A clock that falls below zero loses, however little. A game
is a draw by the rules, at the third repetition and after 50 moves. `--sprt 0,20` ends the match as soon as it
is clear which of two Elo differences holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import chess
import chess.engine
import chess.pgn

from graphsearch.evaluators.factory import parse_options
from tools.match_score import SURE, Score, Sprt, elo_interval, table

OPENINGS = (
    "e4 e5 Nf3 Nc6 Bb5 a6",
    "d4 d5 c4 e6 Nc3 Nf6",
    "e4 c5 Nf3 d6 d4 cxd4 Nxd4 Nf6 Nc3 a6",
    "d4 Nf6 c4 g6 Nc3 Bg7 e4 d6",
    "e4 e6 d4 d5 Nc3 Nf6",
    "c4 e5 Nc3 Nf6 Nf3 Nc6",
    "e4 c6 d4 d5 e5 Bf5",
    "Nf3 d5 g3 Nf6 Bg2 e6",
    "d4 Nf6 c4 e6 Nc3 Bb4",
    "e4 e5 Nf3 Nc6 Bc4 Bc5 c3 Nf6",
)
OURS, THEIRS = "graphsearch", "opponent"


@dataclass(frozen=True, slots=True)
class TimeControl:
    """Seconds for the game, and added after each move.

    >>> TimeControl.read("10+0.1")
    TimeControl(base=10.0, increment=0.1)
    """

    base: float
    increment: float = 0.0

    @classmethod
    def read(cls, text: str) -> TimeControl:
        """Returns the time control of a text such as `10+0.1`."""
        base, _, increment = text.partition("+")
        found = cls(float(base), float(increment or 0))
        if not (0 < found.base < math.inf and 0 <= found.increment < math.inf):
            raise ValueError(f"{text} is no time control")
        return found


@dataclass
class Player:
    """An engine by its command line; started when it is needed, again after a crash."""

    name: str
    command: list[str]
    options: Mapping[str, str]
    process: chess.engine.SimpleEngine | None = None

    def engine(self) -> chess.engine.SimpleEngine:
        """Returns the running engine, with its options set and ready."""
        if self.process is None:
            self.process = chess.engine.SimpleEngine.popen_uci(self.command, timeout=120)
            self.process.configure(dict(self.options))
            self.process.ping()
        return self.process

    def end(self) -> None:
        """Ends the engine, if it runs."""
        process, self.process = self.process, None
        if process is not None:
            with suppress(chess.engine.EngineError, asyncio.TimeoutError):
                process.quit()
            process.close()


@dataclass
class Game:
    """One game as it went; `loss` says why a player lost who was not mated."""

    opening: str
    ours_is_white: bool
    board: chess.Board
    clocks: dict[bool, float]
    times: list[float] = field(default_factory=list)
    result: str = "*"
    ending: str = ""
    loser: str = ""  # by time, an illegal move or a crash

    @property
    def points(self) -> float | None:
        """Our points; None if the game was broken off."""
        points = {"1-0": 1.0, "0-1": 0.0, "1/2-1/2": 0.5}.get(self.result)
        return points if points is None or self.ours_is_white else 1.0 - points


def outcome_of(board: chess.Board) -> chess.Outcome | None:
    """Returns how a game has ended: as the rules say, or by a third repetition or 50 moves on the board.

    `Board.outcome(claim_draw=True)` would end it as soon as the side to move *could* repeat a third time.
    """
    if (outcome := board.outcome()) is not None:
        return outcome
    if board.is_repetition(3):
        return chess.Outcome(chess.Termination.THREEFOLD_REPETITION, None)
    if board.is_fifty_moves():
        return chess.Outcome(chess.Termination.FIFTY_MOVES, None)
    return None


def play(game: Game, players: Mapping[bool, Player], control: TimeControl, most_plies: int) -> None:
    """Plays a game to its end; one that is longer than so many plies is broken off."""
    key = object()
    for player in players.values():
        player.engine().ping()
    while game.result == "*":
        outcome = outcome_of(game.board)
        if outcome is not None:
            game.result, game.ending = outcome.result(), outcome.termination.name.lower()
        elif len(game.board.move_stack) >= most_plies:
            game.ending = "broken off"
            return
        else:
            _move(game, players[game.board.turn], control, key)


def _move(game: Game, player: Player, control: TimeControl, key: object) -> None:
    """Has one player move, on its clock."""
    turn = game.board.turn
    white, black = game.clocks[chess.WHITE], game.clocks[chess.BLACK]
    more, engine = control.increment, player.engine()
    limit = chess.engine.Limit(white_clock=white, black_clock=black, white_inc=more, black_inc=more)
    begin = time.monotonic()
    try:
        move = engine.play(game.board, limit, game=key).move
    except chess.engine.EngineTerminatedError:
        player.end()
        return _lose(game, player, "crash")
    except chess.engine.EngineError:
        return _lose(game, player, "illegal move")
    except TimeoutError:
        player.end()
        return _lose(game, player, "time")
    spent = time.monotonic() - begin
    game.times.append(spent)
    game.clocks[turn] -= spent
    if game.clocks[turn] < 0:
        return _lose(game, player, "time")
    if move is None:
        return _lose(game, player, "illegal move")
    game.clocks[turn] += control.increment
    game.board.push(move)
    return None


def _lose(game: Game, player: Player, reason: str) -> None:
    game.result = "0-1" if game.board.turn == chess.WHITE else "1-0"
    game.ending, game.loser = f"{player.name} loses by {reason}", player.name


def points_of(games: Iterable[Game]) -> list[float]:
    """Returns our points of the games that were not broken off."""
    return [game.points for game in games if game.points is not None]


def score_of(games: Iterable[Game]) -> Score:
    """Returns the score of some games, broken-off ones left out of the points."""
    played = list(games)
    points = points_of(played)
    ours = [game.ending for game in played if game.loser == OURS]
    return Score(
        len(played),
        points.count(1.0),
        points.count(0.5),
        points.count(0.0),
        len(played) - len(points),
        *elo_interval(points),
        sum("time" in ending for ending in ours),
        sum("illegal" in ending for ending in ours),
        sum("crash" in ending for ending in ours),
        sum(game.loser == THEIRS for game in played),
        dict(Counter(game.ending for game in played if game.points == 0.5).most_common()),
    )


# ---------------------------------------------------------------- the match
def match(
    ours: Player, theirs: Player, control: TimeControl, openings: Iterator[str], games: int, plies: int
) -> Iterator[Game]:
    """Yields games as they end: each opening twice, with both colours."""
    opening = ""
    for number in range(games):
        if number % 2 == 0:
            opening = next(openings)
        ours_is_white = number % 2 == 0
        board = chess.Board()
        for san in opening.split():
            board.push_san(san)
        game = Game(opening, ours_is_white, board, dict.fromkeys(chess.COLORS, control.base))
        play(game, {ours_is_white: ours, not ours_is_white: theirs}, control, plies)
        yield game


def openings_of(path: Path | None, plies: int) -> list[str]:
    """Returns the first plies of every game of a PGN file in SAN, or the openings of this tool."""
    if path is None:
        return list(OPENINGS)
    found = []
    with path.open(encoding="utf-8", errors="replace") as stream:
        while (game := chess.pgn.read_game(stream)) is not None:
            board = game.board()
            sans = []
            for move in list(game.mainline_moves())[:plies]:
                sans.append(board.san(move))
                board.push(move)
            found.append(" ".join(sans))
    if not found:
        raise SystemExit(f"{path} has no games")
    return found


def pgn_of(game: Game, number: int, control: TimeControl, names: Mapping[bool, str]) -> str:
    """Returns a game as PGN, with the seconds of every move."""
    node: chess.pgn.GameNode = chess.pgn.Game.from_board(game.board)
    root = node.game()
    root.headers.update(
        Event="graphsearch uci",
        Round=str(number),
        White=names[chess.WHITE],
        Black=names[chess.BLACK],
        Result=game.result,
        TimeControl=f"{control.base:g}+{control.increment:g}",
        Termination=game.ending,
    )
    played = list(root.mainline())[len(game.opening.split()) :]
    for child, seconds in zip(played, game.times, strict=False):
        child.comment = f"{seconds:.3f}s"
    return f"{root}\n\n"


def parser() -> argparse.ArgumentParser:
    """Returns the command line's parser."""
    out = argparse.ArgumentParser(description="Play games between graphsearch uci and another UCI engine.")
    found = shutil.which("stockfish") or shutil.which("stockfish", path="/usr/games")
    out.add_argument("--games", type=int, default=2, help="how many (default: 2)")
    out.add_argument("--tc", type=TimeControl.read, default=TimeControl(10, 0.1), help="default: 10+0.1")
    out.add_argument("--engine", default=found, help="the opponent's command (default: stockfish)")
    for name, whose in (("--engine-option", "the opponent"), ("--option", "graphsearch")):
        metavar, text = "NAME=VALUE", f"of {whose}"
        out.add_argument(name, type=_option, action="append", default=[], metavar=metavar, help=text)
    out.add_argument("--openings", type=Path, help="a PGN file (default: ten openings of its own)")
    out.add_argument("--opening-plies", type=int, default=8, help="of that file's games (default: 8)")
    out.add_argument("--max-plies", type=int, default=600, help="longer games are broken off")
    out.add_argument(
        "--sprt", type=Sprt.read, metavar="LOW,HIGH", help="end as soon as one of two Elo differences holds"
    )
    out.add_argument("--pgn", type=Path, help="append the games to this file")
    out.add_argument("--json", action="store_true", help="print the score as JSON")
    return out


def _option(text: str) -> str:
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"an option is NAME=VALUE, not {text!r}")
    return text


def main(arguments: list[str] | None = None) -> int:
    """Plays the match; returns 1 if we lost a game by time, an illegal move or a crash, else 0."""
    given = parser().parse_args(arguments)
    if not given.engine:
        print("no opponent: stockfish is not installed, and --engine is not given", file=sys.stderr)
        return 2
    ours = Player(OURS, [sys.executable, "-m", "graphsearch", "uci"], dict(parse_options(given.option)))
    theirs = Player(THEIRS, shlex.split(given.engine), dict(parse_options(given.engine_option)))
    games: list[Game] = []
    try:
        if given.pgn:
            given.pgn.open("a", encoding="utf-8").close()  # before anything is played
        openings = cycle(openings_of(given.openings, given.opening_plies))
        for game in match(ours, theirs, given.tc, openings, given.games, given.max_plies):
            games.append(game)
            _tell(game, len(games), given, theirs)
            if given.sprt and abs(given.sprt.ratio(points_of(games))) >= SURE:
                break
    except (TimeoutError, OSError, chess.engine.EngineError) as error:
        print(f"play_games: {error or type(error).__name__}", file=sys.stderr)
        return 2
    finally:
        ours.end()
        theirs.end()
    score = score_of(games)
    print(json.dumps(_as_dict(score, games, given)) if given.json else table(score))
    if given.sprt:
        print(f"sequential test: {given.sprt.verdict(points_of(games))}", file=sys.stderr)
    return 1 if score.time_losses or score.illegal_moves or score.crashes else 0


def _tell(game: Game, number: int, given: argparse.Namespace, theirs: Player) -> None:
    """Says on stderr how a game ended, and writes it down."""
    colour = "White" if game.ours_is_white else "Black"
    plies = len(game.board.move_stack)
    print(f"{number}: {game.result} as {colour}, {plies} plies, {game.ending}", file=sys.stderr, flush=True)
    if given.pgn:
        names = {game.ours_is_white: OURS, not game.ours_is_white: Path(theirs.command[0]).name}
        with given.pgn.open("a", encoding="utf-8") as stream:
            stream.write(pgn_of(game, number, given.tc, names))


def _as_dict(score: Score, games: list[Game], given: argparse.Namespace) -> dict[str, Any]:
    return {
        **asdict(score),
        "tc": f"{given.tc.base:g}+{given.tc.increment:g}",
        "options": given.option,
        "engine": given.engine,
        "engine_options": given.engine_option,
        "results": [
            {"result": g.result, "ours_is_white": g.ours_is_white, "ending": g.ending} for g in games
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
