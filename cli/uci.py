"""`graphsearch uci`: the search as an engine for chess programs."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from graphsearch.base.faults import Watch, error_line

from .commands import command
from .options import EvaluatorOptions, Ram, StoreToSave, option
from .output import FAILED
from .signals import StopSignals

if TYPE_CHECKING:
    from graphsearch.uci.engine import Engine
    from graphsearch.uci.writer import Writer

# thresholds of collections that take milliseconds; a rare one takes a third of a second of a player's clock
COLLECTED = 2_000, 10, 10


@command(
    "Start a UCI engine that remembers its searches.",
    "graphsearch uci games.graph",
    "graphsearch uci --evaluator lc0:maia-1900.pb.gz --store maia.graph --ram 2GB",
)
def uci(
    *,
    store: StoreToSave = None,
    evaluator: EvaluatorOptions,
    ram: Ram = None,
    param: Annotated[
        list[str] | None,
        option("--param NAME=VALUE", "Any other engine option, such as MultiPV=3; may be repeated."),
    ] = None,
) -> None:
    """Speak UCI on stdin and stdout. Chess programs may set every option; those given here are the defaults.

    With a graph file the engine remembers every position it has searched, in any game or analysis, and
    continues from there. It ends at `quit`, at the end of stdin, at Ctrl-C and at SIGTERM, and saves each
    time.
    """
    from graphsearch.base.errors import InvalidParameterError
    from graphsearch.uci.engine import Engine
    from graphsearch.uci.writer import Writer

    given = {
        "Evaluator": evaluator.evaluator,
        "Policy": evaluator.policy,
        "Value": evaluator.value,
        "EvaluatorOptions": ";".join(evaluator.evaluator_option or []),
        "SyzygyPath": evaluator.syzygy,
        "Pool": evaluator.pool,
        "Threads": None if evaluator.threads is None else str(evaluator.threads),
        "GraphFile": None if store is None else str(store),
        "RAM": ram,
    }
    defaults = {name: text for name, text in given.items() if text is not None}
    for text in param or []:
        name, sign, value = text.partition("=")
        if not sign:
            raise typer.BadParameter(f"--param must be NAME=VALUE, not {text!r}")
        defaults[name.strip()] = value.strip()
    writer = Writer(_send)
    try:
        engine = Engine(writer, defaults)
    except InvalidParameterError as error:
        raise typer.BadParameter(str(error)) from None
    watched = Watch(lambda line: writer.info(f"ERROR: {line}"))  # a chess program shows no stderr
    code = 0
    with StopSignals() as signals:
        try:
            _read(engine, writer, signals)
        except KeyboardInterrupt:
            code = 130
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except OSError as error:
            writer.info(f"ERROR: stdin: {error_line(error)}")
            code = FAILED
        signals.arm()
        closed = engine.close()
        code = code or signals.exit_code
    watched.end()
    if not closed:
        os._exit(code)  # nothing to save; a running compilation or loading network would delay the exit
    code = code or (FAILED if engine.has_lost else 0)
    if code:
        raise typer.Exit(code)


def _read(engine: Engine, writer: Writer, signals: StopSignals) -> None:
    """Passes every line of stdin to the engine, until `quit`, the end of stdin, or the reader is gone.

    A signal ends it only while it waits for a line: an exception in the engine might leave a lock held.
    """
    from graphsearch.base.limits import UCI_LINE, size_text

    most = UCI_LINE.most
    while not signals.stop.is_set() and not writer.gone.is_set():
        line = _next_line(signals, most + 1)
        if len(line) > most:
            writer.info(f"ERROR: a line of more than {size_text(most)} is ignored{UCI_LINE.hint}")
            while line and not line.endswith(b"\n"):
                line = _next_line(signals, most)
        elif not line or not engine.handle(line.decode("utf-8", "replace")):
            return
        elif line.strip() == b"isready" and gc.get_threshold() != COLLECTED:
            # at first, or after a compilation that restored the old ones
            gc.freeze()  # the objects of the start stay; no collection scans them again
            gc.set_threshold(*COLLECTED)


def _next_line(signals: StopSignals, most: int) -> bytes:
    """Returns the next line of stdin or its first `most` bytes; nothing at the end or after a signal."""
    signals.disarm()
    line = b"" if signals.stop.is_set() else sys.stdin.buffer.readline(most)
    signals.arm()
    return line


def _send(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
