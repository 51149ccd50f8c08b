"""`graphsearch book`: opening books that grow in a graph file."""

from __future__ import annotations

import typer

from . import book_queue, book_todo
from .output import Group

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Build an opening book in a graph file, and ask what it needs.",
)

app.command(epilog=book_todo.EXAMPLES, short_help="List what a book needs next.")(book_todo.todo)
app.add_typer(book_queue.app, name="queue")
