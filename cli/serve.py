"""`graphsearch serve`: the explorer in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from .commands import command
from .options import Ram, StoreOption, argument, graph_ram, option
from .output import say
from .signals import StopSignals

Others = Annotated[
    list[Path] | None,
    argument(
        "OTHER...",
        "Other graph files that the page may compare this one with, or merge into it, beside those of the "
        "same folder.",
    ),
]


@command(
    "Explore a graph file in the browser.",
    "graphsearch serve first.graph",
    "graphsearch serve first.graph --read-only --no-browser --port 8000",
)
def serve(
    file: StoreOption,
    others: Others = None,
    port: Annotated[int, option("--port N", "Port; 0 takes a free one.", min=0, max=65535)] = 0,
    host: Annotated[
        str,
        option(
            "--host ADDRESS", "Address to listen at; another than this machine's own needs --password-file."
        ),
    ] = "127.0.0.1",
    no_browser: Annotated[bool, option("--no-browser", "Only print the address; open no browser.")] = False,
    read_only: Annotated[bool, option("--read-only", "Serve without searches, builds and imports.")] = False,
    password_file: Annotated[
        Path | None, option("--password-file FILE", "Also let in who knows the first line of FILE.")
    ] = None,
    keep_address: Annotated[
        Path | None,
        option(
            "--keep-address FILE",
            "Keep port, token and cookie in FILE: addresses and open pages survive a restart.",
        ),
    ] = None,
    evaluator: Annotated[
        list[str] | None,
        option(
            "--evaluator NAME",
            "An evaluator that the page may search with, such as lc0:FILE, beside builtin and uniform; the "
            "first is the default. May be repeated.",
        ),
    ] = None,
    ram: Ram = None,
) -> None:
    """Explore a graph file in the browser: board, moves, graph, values, searches, books, games and SQL.

    The address that is printed opens the page; it has a token that nobody else knows. The page may be closed
    at any time: searches that were started or queued go on until they are done, or until this command ends.
    Ctrl-C saves and ends it. Another program may search the file meanwhile; the page then only reads it.
    """
    try:
        from graphsearch.web.served_file import ServedFile, offered
        from graphsearch.web.serving import Server, read_password
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        raise typer.BadParameter(
            f"the page needs the package {missing}: pip install '.[web]' in the folder of graphsearch"
        ) from None
    password = None if password_file is None else read_password(password_file)
    served = ServedFile(
        file,
        read_only=read_only,
        evaluators=offered(evaluator or ()),
        ram_bytes=graph_ram(ram),
        beside=tuple(others or ()),
    )
    with StopSignals() as signals:
        server = Server(served, host=host, port=port, password=password, kept=keep_address)
        signals.arm()
        print(server.address, flush=True)
        say("Press Ctrl-C to stop; a running search is saved.")
        if not no_browser:
            webbrowser.open(server.address)
        server.run(signals.stop)
        if signals.exit_code:
            raise typer.Exit(signals.exit_code)
