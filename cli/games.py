"""`graphsearch import`, `games`, `prepare`, `novelties`: games in a graph file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import chess
import typer

from graphsearch.exchange.importing import STDIN, FileProgress, GivenFile, check_file
from graphsearch.exchange.kept_games import export_games
from graphsearch.exchange.output import check_target
from graphsearch.position.board import board_of
from graphsearch.position.notation import named_board
from graphsearch.query.game_list import GameFilters, ListedGame, ListedGames, list_games
from graphsearch.query.games import Games, PlayedMove, games
from graphsearch.query.novelties import NotableMove, Novelties, Rules
from graphsearch.query.novelties import novelties as novelties_in
from graphsearch.query.prepare import Departure, Preparation
from graphsearch.query.prepare import prepare as preparation
from graphsearch.store.file import real_path
from graphsearch.store.store import Store
from graphsearch.store.tables.games import imported

from . import options
from .exports import target_of
from .find import range_of
from .output import FAILED, fail, one_line, print_answer, print_json, problem_lines, say
from .progress import StopSignals, progress_bar, titled_bar
from .render import line_cells, opening_at, opening_line
from .tables import FILL, LEFT, VIEW, Part, Table, count, decimal, is_json, is_white, score, seen, signed

if TYPE_CHECKING:
    from graphsearch.exchange.importing import FileReport

ENDINGS = {".pgn": "pgn", ".bin": "polyglot", ".epd": "epd", ".fen": "epd"}
NOUNS = {"pgn": ("game",), "polyglot": ("entry", "entries"), "epd": ("position",)}  # one, and several
READS = (
    "import reads games (.pgn), Polyglot books (.bin) and positions (.epd, .fen), also as .gz or .zst;"
    " --format says which, if the ending does not"
)


def import_files(
    files: list[str],
    store: options.StoreToMake,
    form: str | None = None,
    variations: bool = False,
    depth: options.Count | None = None,
    players: bool = False,
    again: bool = False,
) -> int:
    """Import games (PGN), books (Polyglot, .bin) or positions (EPD) into a graph file.

    Games: how often each move was played, and with which results, goes into tables beside the search graph. A
    game that python-chess reads is read. One with an illegal move, or a word that could be a move, is
    reported with its line and not counted; other words and unreadable tags are reported. Games of other
    variants are counted by variant and skipped. With --players, `prepare` and `games --list` work; a file
    that was imported without is then read again only for that.

    Books: every entry. A book knows positions only by their keys; their FENs are looked up in the graph file,
    and by following the moves of the book.

    A file that was imported before is recognised by its bytes and skipped. After Ctrl-C or a kill, repeat the
    command to resume. Exit code 1 if a file cannot be read, or nothing of it counts.

    JSON: for each of `files`, `taken` and `skipped` count all of it, `new_taken` and `new_skipped` only
    what is of this call; `players` counts games whose players were kept in this call; `problems` has the line
    and reason of everything broken.

    \b
    Examples:
      graphsearch import first.graph games.pgn
      graphsearch import books.graph games.pgn --players
      graphsearch import first.graph book.bin
      graphsearch import games.graph games.pgn --players --variations --depth 40 --json

    Args:
      files: FILE...: Files, plain, .gz or .zst; - for standard input.
      form: --format FORMAT: pgn, polyglot (.bin) or epd; by default the ending of each file says it.
      variations: --variations: Of PGN: also count the moves of variations, in a separate column.
      depth: --depth N: Of PGN: count only the first N half-moves of a game, by its move numbers.
      players: --players: Of PGN: also keep the games: names, Elo, date, event, result, moves, comments and
        variations; also of files that were imported before without them.
      again: --again: Import files again that were imported before.
    """
    forms = {form or ENDINGS.get(_ending(name), "pgn") for name in files}
    form = forms.pop()
    if forms or form not in NOUNS:
        raise typer.BadParameter("give files of one format, or name it: --format pgn, polyglot or epd")
    if form != "pgn" and (variations or players or depth is not None):
        raise typer.BadParameter("--variations, --players and --depth are options of PGN files")
    if files.count(STDIN) > 1:
        raise typer.BadParameter("standard input (-) can be given only once")
    from graphsearch.exchange import imports

    given = [given_file(name) for name in files]
    with (
        StopSignals("Stopping: saving the import...\n") as signals,
        titled_bar("Reading", file_title) as show,
    ):
        if STDIN not in files:  # Ctrl-C has to end a read from a pipe at once; the counts so far are saved
            signals.arm()
        reports = imports.import_files(
            form,
            store,
            given,
            variations=variations,
            max_ply=depth,
            players=players,
            again=again,
            stop=signals.stop,
            on_progress=show,
        )
    left, noun = files[len(reports) :], NOUNS[form]
    if is_json():
        with Store.open(store, read_only=True) as opened:
            found = imported(opened).as_dict()
        del found["sources"]
        print_json({"store": str(store), "files": [r.as_dict() for r in reports], "not_read": left, **found})
    for report in reports:
        _say_problems(report, noun)
        if report.failed and report.name != STDIN and _ending(report.name) not in ENDINGS:
            say(f"note: {report.name} was read as {form}; {READS}")
        if not is_json() and not report.error:
            print(_import_summary(report, noun))
    if signals.stop.is_set() and (left or any(report.state == "stopped" for report in reports)):
        say(f"Saved: {count(sum(report.new for report in reports), *noun)}. Repeat the command to resume.")
        return signals.exit_code
    return FAILED if any(report.failed for report in reports) else 0


def _ending(name: str) -> str:
    """Returns the ending of a file's name, below that of its compression.

    >>> _ending("book.BIN"), _ending("games.pgn.zst"), _ending("-")
    ('.bin', '.pgn', '')
    """
    return unpacked(name).suffix.lower()


def unpacked(name: str) -> Path:
    """Returns the path of a file without the ending of its compression."""
    path = Path(name)
    return path.with_suffix("") if path.suffix.lower() in (".gz", ".zst") else path


def given_file(name: str) -> GivenFile:
    """Returns a file named on the command line, `-` for standard input, or raises InputFileError."""
    if name != STDIN:
        check_file(name)
        return GivenFile(name)
    return GivenFile(name, cast(BinaryIO, sys.stdin.buffer))


def _say_problems(report: FileReport, noun: Sequence[str]) -> None:
    place = "entry" if report.kind == "polyglot" else "line"
    problems = [f"{report.name}, {place} {one.place}: {one.reason}" for one in report.problems]
    for line in problem_lines(problems, len(problems)):
        say(line)
    for name, number in report.variants.items():
        games = count(number, *noun)
        say(f"{report.name}: {games} of {name} skipped; only standard chess and Chess960 can be searched")
    for note in report.notes:
        say(f"note: {report.name}: {note}")
    if report.error:
        kept = f"; {count(report.new, *noun)} before that were kept" if report.new else ""
        fail(f"{report.error}{kept}")


def _import_summary(report: FileReport, noun: Sequence[str]) -> str:
    taken = count(report.taken, *noun)
    if report.state == "known":
        return f"{report.name}: imported before ({taken}); --again imports it again"
    if report.state == "players":
        kept = count(report.players, *noun)
        return f"{report.name}: imported before ({taken}); players of {kept} added; {report.seconds:.1f} s"
    broken = report.new_skipped - sum(report.variants.values())
    skipped = [f"{broken:,} broken"] if broken > 0 else []
    skipped += [f"{number:,} of {name}" for name, number in report.variants.items()]
    tail = f", skipped: {', '.join(skipped)}" if skipped else ""
    before = f" ({report.new_taken:,} of them now)" if report.new_taken < report.taken else ""
    pace = f", {report.new / report.seconds:,.0f} per second" if report.seconds > 0 else ""
    return f"{report.name}: {taken} imported{before}{tail}; {report.seconds:.1f} s{pace}"


def file_title(now: FileProgress) -> str:
    """Returns the current step of an import or a review; the bar counts bytes, visits or games."""
    pace = f", {now.count:,}, {now.rate:,.0f}/s" if now.count else ""
    return f"{now.stage} {now.name}{pace}"


LIST_KINDS = {"White": FILL, "Black": FILL, "Result": LEFT}
LIST_SPARE = ("Event", "Opening", "Moves", "Elo W", "Elo B")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The filters and the output of a list of games.

    Attributes:
      listed: --list: List the games themselves; with POSITION those that reach it.
      player: --player NAME: Listed: games of a player; given twice, the games of these two with each other.
      opening: --opening TEXT: Listed: an ECO code, its beginning, or part of a name.
      result: --result R: Listed: 1-0, 0-1, 1/2-1/2 or *.
      elo: --elo MIN..MAX: Listed: rating of both players.
      output: -o --output OUT: Listed: also write these games as PGN, or .csv; - for stdout, without the list.
    """

    listed: bool = False
    player: list[str] | None = None
    side: options.Side = None
    opening: str | None = None
    result: str | None = None
    elo: str | None = None
    since: options.Since = None
    lines: options.Lines = 30
    output: str | None = None

    @property
    def given(self) -> bool:
        """Whether any filter or the output is given."""
        return self != ListOptions(lines=self.lines)

    def filters(self, position: chess.Board | None) -> GameFilters:
        """Returns the filters of the query."""
        names = self.player or []
        if len(names) > 2:
            raise typer.BadParameter("give --player once, or twice for games between two players")
        least, most = range_of("--elo", self.elo, int)
        return GameFilters(
            player=names[0] if names else "",
            opponent=names[1] if len(names) > 1 else "",
            color=options.side_of(self.side),
            opening=self.opening or "",
            result=self.result,
            least_elo=least,
            most_elo=most,
            since=self.since,
            position=position,
        )


def _listed(found: ListedGames) -> Iterator[Part]:
    yield f"{count(found.total, 'game')} of {found.all_games:,}"
    yield Table(map(_listed_cells, found.games), LIST_KINDS, spare=LIST_SPARE)


def _listed_cells(game: ListedGame) -> dict[str, str]:
    row = game.row
    return {
        "Date": row.date or "",
        "White": one_line(row.white or "?"),
        "Elo W": str(row.white_elo or ""),
        "Black": one_line(row.black or "?"),
        "Elo B": str(row.black_elo or ""),
        "Result": row.result,
        "ECO": one_line(game.eco or ""),
        "Opening": (game.row.opening or "")[4:],
        "Moves": str((game.plies + 1) // 2),
        "Event": one_line(row.event or ""),
        "Ply": "" if game.ply is None else str(game.ply),
        "Game": f"{row.source}:{row.number}",
    }


GAMES_SPARE = ("Decided", "Share", "Diff", "White", "Draw", "Black", "Visits")


def _games(found: Games) -> Iterator[Part]:
    yield from opening_line(opening_at(found.position))
    yield _games_summary(found)
    if not found.results.games:
        say("note: no imported game continues from this position; `graphsearch import` adds games")
    decided = found.results.unknown > 0
    white = is_white(found.position)
    rows = [_game_cells(move, decided=decided, white=white) for move in found.moves]
    yield Table(rows, spare=GAMES_SPARE)


def games_of(store: options.StoreOption, position: options.AnyPositionOptions, wanted: ListOptions) -> None:
    """Compare the results of imported games with N and Q of the search, for each move of a position.

    White, Draw, Black and Result are per cent of the games that have a result; where some have none, Decided
    says how many have one. Result is the mean result, White's as every score. Diff is what this result says
    as a value in [-1, 1], minus Q: the games did better than the search expects. Share is the move's share of
    all visits here.

    With --list: the games that meet all conditions, the latest first; with POSITION those that reach it,
    whatever their order of moves. `import --players` keeps them, with comments and variations. A name is the
    beginning of words in it; a date without a day counts as before all days of it.

    JSON: `score`, `share` and `n_share` are in [0, 1]; values are seen by the side to move; unknown ones are
    null. With --list `total` counts the games that meet the conditions, and `ply` is where a game reaches the
    position.

    \b
    Examples:
      graphsearch games first.graph
      graphsearch games games.graph --list --player carlsen --opening B90 --elo 2500.. --since 2020
      graphsearch games games.graph "1. e4 c5 2. Nf3" --list --result 0-1 -o lost.pgn
    """
    if wanted.listed:
        target = target_of(wanted.output) if wanted.output else None
        check_target(target, store=real_path(store))
        listed = list_games(store, wanted.filters(position.board()), most=wanted.lines or options.ALL_LINES)
        if target:
            bare = export_games(store, listed, target)
            say(f"wrote {wanted.output}: {count(len(listed.games), 'game')}")
            if bare:
                say(f"note: of {count(bare, 'game')} only headers and moves are kept, without comments")
        if wanted.output != options.STDOUT:
            print_answer(listed, _listed(listed))
        if listed.total > len(listed.games):
            say(f"note: {listed.total - len(listed.games):,} more games; --lines 0 lists them all")
        return
    if wanted.given:
        raise typer.BadParameter("conditions on games are options of --list")
    found = games(store, position.board() or named_board("startpos"))
    print_answer(found, _games(found))


def _games_summary(found: Games) -> str:
    white = is_white(found.position)
    searched = "" if found.n is None else f"   {count(found.n, 'visit')}"
    mean = "" if found.score is None else f"   result {100 * _result(found.score, white=white):.1f}%"
    unknown = ""
    if found.results.unknown:
        unknown = f" ({found.results.decided:,} with a result)"
        mean = f"{mean} of these {found.results.decided:,}" if mean else ""
    side = "White" if white else "Black"
    return f"{side} to move   {count(found.results.games, 'game')}{unknown}{mean}{searched}   {VIEW}"


def _result(mean: float, *, white: bool) -> float:
    """Returns the mean result of the side to move, in [0, 1], in the shown view."""
    return (1.0 + seen(2.0 * mean - 1.0, white=white)) / 2.0


def _game_cells(move: PlayedMove, *, decided: bool, white: bool) -> dict[str, str]:
    mean = None if move.score is None else 100 * _result(move.score, white=white)
    return {
        "Move": move.san,
        "Games": f"{move.results.games:,}" if move.results.games else "",
        "Decided": f"{move.results.decided:,}" if decided and move.results.games else "",
        **dict(zip(("White", "Draw", "Black"), map(decimal, move.results.percents.values()), strict=True)),
        "Result": decimal(mean),
        "Score": score(move.cp, move.mate, white=white),
        "Visits": "" if move.n is None else f"{move.n:,}",
        "Share": decimal(None if move.n_share is None else 100 * move.n_share),
        "Q": signed(move.q, white=white),
        "Diff": signed(move.difference, white=white),
    }


PREPARE_SPARE = ("Opening", "Last", "Answer", "Of", "ECO", "Best", "Cost", "Result", "Score")


def prepare(
    store: options.StoreOption,
    player: list[str],
    side: options.Side = None,
    since: options.Since = None,
    book: str | None = None,
    min_visits: options.Count = 10,
    min_games: options.Count = 1,
    lines: options.Lines = 30,
    by: str = "games",
) -> None:
    """List the moves by which an opponent leaves your book, or what the graph file has searched.

    A move leaves if the position behind it is not in the book; with a book of one side, games of the other
    colour count. For each move: the games with it, of all games there; the player's score in per cent; what
    it costs against the best move, in pawns by the stored values; that move; your best answer; and the line.
    A name may be exact, or beginnings of its words that only one player has; several --player are taken
    together. Without a book, the best move of a position never leaves.

    JSON: values and score are the player's; `games_here` are games in the position; `entered` games met a
    known position, in `left_by_other` the other side led out of it first, `stayed` ended inside.

    \b
    Examples:
      graphsearch prepare games.graph --player "Kasparov"
      graphsearch prepare books.graph --player carlsen --side black --since 2022 --book white

    Args:
      player: --player NAME: The opponent's name, or the beginning of a word in it.
      book: --book NAME: Your book; else the stored graph.
      min_visits: --min-visits N: Without --book: a position is known with N visits or more.
      by: --by WHAT: games: most played first; cost: first what costs most, times its games.
      min_games: --min-games N: Only moves that were played N times or more.
    """
    with progress_bar("Following games") as show:
        found = preparation(
            store,
            player,
            color=options.side_of(side),
            since=since,
            book=book,
            min_visits=min_visits,
            min_games=min_games,
            top=lines or options.ALL_LINES,
            by=by,
            on_progress=show,
        )
    if found.damaged:
        say(f"note: {count(found.damaged, 'game')} with illegal moves; only the moves before those count")
    print_answer(found, _preparation(found))


def _preparation(found: Preparation) -> Iterator[Part]:
    names, side = " / ".join(map(one_line, found.players)), f" as {found.color}" if found.color else ""
    where = f"the book {one_line(found.book)}" if found.book else "the graph"
    yield f"{names}{side}: {count(found.games, 'game')}, {found.entered:,} in {where}"
    yield (
        f"Left by the player: {found.left:,}   left by the other side before: {found.left_by_other:,}"
        f"   ended inside: {found.stayed:,}   {VIEW}"
    )
    yield Table(map(_departure_cells, found.moves), spare=PREPARE_SPARE)
    if found.total > len(found.moves):
        say(f"note: {found.total - len(found.moves):,} more moves; --lines 0 lists them all")


def _begin(start: str | None) -> str:
    """Returns the first position of a line, empty for the start position: games may begin anywhere.

    >>> _begin(None), _begin("bqnnrkrb/pppppppp/8/8/8/8/PPPPPPPP/BQNNRKRB w KQkq - 0 1")
    ('', 'chess960:3 ')
    """
    if start is None:
        return ""
    number = board_of(start).chess960_pos()
    return f"{start}: " if number is None else f"chess960:{number} "


def _departure_cells(move: Departure) -> dict[str, str]:
    worth, cells = move.worth, line_cells(move.start, [*move.line, move.san])
    return {
        **cells,
        "Line": f"{_begin(move.start)}{cells['Line']}",
        "Score": score(worth.cp, worth.mate, white=is_white(move.position)),
        "Cost": "" if worth.cost_cp is None else f"{worth.cost_cp / 100:.2f}",
        "Best": worth.best_san or "",
        "Answer": move.answer or "",
        "Games": f"{move.games:,}",
        "Of": f"{move.games_here:,}",
        "Result": "" if move.score is None else f"{100 * move.score:.0f}%",
        "Last": f"{move.game.date or ''} {move.game.source}:{move.game.number}".strip(),
    }


NOVELTY_SPARE = ("Opening", "Share", "Points", "Visits", "Best", "ECO", "Of")


def _novelties(found: Novelties, games: int, cp: int | None) -> Iterator[Part]:
    yield f"{count(found.reached, 'position')} of games, {found.judged:,} of them searched   {VIEW}"
    yield from problem_lines(found.problems, len(found.problems))
    liked = "Best by the search" if cp is None else f"Best by the search, or within {cp / 100:.2f}"
    known = "no game" if not games else f"at most {count(games, 'game')}"
    for title, listed, omitted in (
        (f"{liked}, in {known}", found.novelties, {"Loss", "Points"}),
        ("Popular in games, and worse", found.popular, {"Share"}),
    ):
        yield f"\n{title}: {'' if listed else 'none'}".rstrip()
        cells = map(_novelty_cells, listed)
        rows = [{name: text for name, text in row.items() if name not in omitted} for row in cells]
        yield Table(rows, spare=NOVELTY_SPARE)


def novelties(
    store: options.StoreOption,
    position: options.AnyPositionOptions,
    book: options.OfBook = None,
    games: options.Natural = 0,
    cp: options.Natural | None = None,
    min_games: options.Count = 5,
    min_visits: options.Count = 100,
    lines: options.Lines = 20,
) -> None:
    """List the best moves of the search that imported games have never or hardly played; then the reverse.

    The positions that games passed from POSITION on, or those of a book, are looked at. The first table has
    the novelties: what many games could have played comes first (games that passed the position, times the
    move's share of the visits). Moves into a position known from games are none. The second table has popular
    moves that lose much: first what gave away most points of games, by the stored values.

    JSON: `reached` positions had enough games, `judged` of them enough visits; values are those of the side
    that moves.

    \b
    Examples:
      graphsearch novelties games.graph
      graphsearch novelties books.graph --book white --cp 15 --games 2 --json

    Args:
      games: --games N: A move is new if N games or fewer have it.
      cp: --cp CP: Also moves that are at most CP centipawns worse than the best one, however few their
        visits.
      min_games: --min-games N: Only positions that N games or more passed.
      min_visits: --min-visits N: Only positions with N visits or more.
    """
    if position.given and book is not None:
        raise typer.BadParameter("give a position or --book, one of the two")
    rules = Rules(games=games, cp=cp, min_games=min_games, min_visits=min_visits)
    board = None if book else position.board() or chess.Board()
    with progress_bar("Following games") as show:
        found = novelties_in(
            store,
            board,
            book=book,
            rules=rules,
            top=lines or options.ALL_LINES,
            on_progress=lambda met: show(met, None),
        )
    print_answer(found, _novelties(found, games, cp), fits=True)


def _novelty_cells(move: NotableMove) -> dict[str, str]:
    white = is_white(move.position)
    return {
        **line_cells(move.start, [*move.line, move.step.san]),
        "Score": score(move.step.cp, move.step.mate, white=white),
        "Best": move.best.san,
        "Loss": f"{move.cost_cp / 100:.2f}",
        "Games": f"{move.games:,}",
        "Of": f"{move.here.games:,}",
        "Points": f"{move.weight:,.1f}",
        "Visits": f"{move.step.edge.n:,}",
        "Share": f"{100 * move.n_share:.1f}%",
    }
