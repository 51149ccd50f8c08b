"""`graphsearch serve` and `uci`: the explorer in the browser, and the engine for chess programs."""

from __future__ import annotations

import gc
import os
import sys
import webbrowser
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from graphsearch.base.faults import Watch, error_line, signal_of
from graphsearch.base.limits import UCI_LINE, decoded, size_text
from graphsearch.base.system import interruptible
from graphsearch.evaluators.factory import EvaluatorSpec, create
from graphsearch.evaluators.protocol import Evaluator
from graphsearch.uci.engine import Engine
from graphsearch.uci.protocol import Writer

from .commands import without_tables
from .options import EvaluatorOptions, Ram, StoreOption, StoreToSave, graph_ram, option, remember
from .output import FAILED, say
from .progress import StopSignals


@without_tables
def serve(
    file: StoreOption,
    port: Annotated[int, option("--port N", "Port; 0 takes a free one.", min=0, max=65535)] = 0,
    host: str = "127.0.0.1",
    no_browser: bool = False,
    read_only: bool = False,
    password_file: Path | None = None,
    evaluator: list[str] | None = None,
    ram: Ram = None,
) -> int:
    """Explore a graph file in the browser: board, moves, graph, values, searches, books and games.

    The address that is printed opens the page; it has a token that nobody else knows. The page may be closed
    at any time: searches that were started or queued go on until they are done, or until this command ends.
    Ctrl-C saves and ends it. Another program may search the file meanwhile; the page then only reads it.

    \b
    Examples:
      graphsearch serve first.graph
      graphsearch serve first.graph --read-only --no-browser --port 8000

    Args:
      host: --host ADDRESS: Address to listen at; another than this machine's own needs --password-file.
      no_browser: --no-browser: Only print the address; open no browser.
      read_only: --read-only: Serve without searches, builds and imports.
      password_file: --password-file FILE: Also let in who knows the first line of FILE.
      evaluator: --evaluator NAME: An evaluator that the page may search with, such as lc0:FILE, beside
        builtin and uniform; the first is the default. May be repeated.
    """
    try:
        from graphsearch.web.serving import Server, read_password
        from graphsearch.web.task_queue import ServedFile, offered
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        raise typer.BadParameter(
            f"the page needs the package {missing}: pip install '.[web]' in the folder of graphsearch"
        ) from None
    password = None if password_file is None else read_password(password_file)
    own = EvaluatorOptions().of_file(None if evaluator else file)
    first = {own.spec()[0].describe(): own.spec()[0]} if own.named else {}
    evaluators = first | offered(evaluator or ()) | first  # also in place of builtin
    served = ServedFile(file, read_only=read_only, evaluators=evaluators, ram_bytes=graph_ram(ram))
    with StopSignals() as signals:
        server = Server(served, host=host, port=port, password=password)
        signals.arm()
        print(server.address, flush=True)
        say("Press Ctrl-C to stop; a running search is saved.")
        if not no_browser:
            webbrowser.open(server.address)
        server.run(signals.stop)
        return signals.exit_code


# thresholds of collections that take milliseconds; a rare one takes a third of a second of a player's clock
COLLECTED = 2_000, 10, 10


@without_tables
def uci(
    *, store: StoreToSave = None, evaluator: EvaluatorOptions, ram: Ram = None, param: list[str] | None = None
) -> int:
    """Speak UCI on stdin and stdout. Chess programs may set every option; those given here are the defaults.

    With a graph file the engine remembers every position it has searched, in any game or analysis, and
    continues from there. It ends at `quit`, at the end of stdin, at Ctrl-C and at SIGTERM, and saves each
    time.

    \b
    Examples:
      graphsearch uci games.graph
      graphsearch uci --evaluator lc0:maia-1900.pb.gz --store maia.graph --ram 2GB

    Args:
      param: --param NAME=VALUE: Any other engine option, such as MultiPV=3; may be repeated.
    """
    evaluator = evaluator.of_file(store)
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
    writer = Writer(partial(print, end="", file=sys.stdout, flush=True))

    def make(spec: EvaluatorSpec) -> Evaluator:
        made = create(spec)
        remember(made.identity, spec)
        return made

    engine = Engine(writer, defaults, make=make)
    watched = Watch(lambda line: writer.info(f"ERROR: {line}"))  # a chess program shows no stderr
    code = 0
    with StopSignals() as signals:
        try:
            _read(engine, writer, signals)
        except (KeyboardInterrupt, SystemExit) as ended:
            code = 128 + signal_of(ended)
        except OSError as error:
            writer.info(f"ERROR: stdin: {error_line(error)}")
            code = FAILED
        signals.arm()
        closed = engine.close()
        code = code or signals.exit_code
    watched.end()
    if not closed:
        os._exit(code)  # nothing to save; a running compilation or loading network would delay the exit
    return code or (FAILED if engine.has_lost else 0)


def _read(engine: Engine, writer: Writer, signals: StopSignals) -> None:
    """Passes every line of stdin to the engine, until `quit`, the end of stdin, or the reader is gone.

    A signal ends it only while it waits for a line: an exception in the engine might leave a lock held.
    """
    most = UCI_LINE.most
    while not signals.stop.is_set() and not writer.gone.is_set():
        line = _next_line(signals, most + 1)
        if len(line) > most:
            writer.info(f"ERROR: a line of more than {size_text(most)} is ignored{UCI_LINE.hint}")
            while line and not line.endswith(b"\n"):
                line = _next_line(signals, most)
        elif not line or not engine.handle(decoded(line)):
            return
        elif line.strip() == b"isready" and gc.get_threshold() != COLLECTED:
            # at first, or after a compilation that restored the old ones
            gc.freeze()  # the objects of the start stay; no collection scans them again
            gc.set_threshold(*COLLECTED)


def _next_line(signals: StopSignals, most: int) -> bytes:
    """Returns the next line of stdin or its first `most` bytes; nothing at the end or after a signal."""
    signals.arm(on=False)
    stdin = sys.stdin  # a read that goes on in a thread keeps it: else Python's end would wait for the read
    line = b"" if signals.stop.is_set() else interruptible(lambda: stdin.buffer.readline(most))
    signals.arm()
    return line
