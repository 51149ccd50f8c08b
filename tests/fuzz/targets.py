"""The table of targets: everything that reads what comes from outside."""

from __future__ import annotations

from pathlib import Path

from . import files, graphfile, kernels, networks, texts
from .harness import Target


def _given(*data: bytes) -> object:
    return lambda _: list(data)


def _graph(name: str, mutate: object) -> Target:
    return Target(name, graphfile.seeds, mutate, files.exercise, texts.warm, seconds=120)  # type: ignore[arg-type]


def _text(name: str, seeds: object, mutate: object, call: object, megabytes: int = 400) -> Target:
    return Target(name, seeds, mutate, call, texts.warm, megabytes=megabytes)  # type: ignore[arg-type]


def _kernel(name: str, seeds: object, mutate: object, call: object) -> Target:
    return Target(name, seeds, mutate, call, kernels.warm)  # type: ignore[arg-type]


TARGETS = {
    target.name: target
    for target in (
        _graph("graph-blocks", graphfile.by(graphfile.blocks)),
        _graph("graph-rows", graphfile.by(graphfile.rows)),
        _graph("graph-schema", graphfile.by(graphfile.schema)),
        _graph("graph-pages", graphfile.by(graphfile.pages)),
        _graph("graph-log", graphfile.of_log),
        _kernel("decode", kernels.plain_seeds, kernels.mutate_plain, kernels.decode),
        _kernel("unpack", kernels.stored_seeds, kernels.mutate_stored, kernels.unpack),
        _kernel("entries", kernels.entry_seeds, kernels.mutate_entries, kernels.read_entries),
        _text("fen", _given(*texts.FENS), texts.mutate_fen, texts.read_fen),
        _text("pgn", _given(texts.PGN), texts.pgn_words, texts.imports("pgn", ".pgn")),
        _text("pgn-zst", texts.zst_seeds, texts.mutate_zst, texts.imports("pgn", ".pgn.zst")),
        _text("epd", _given(texts.EPD, *(fen + b" id 1;" for fen in texts.FENS)), texts.epd_words, texts.imports("epd", ".epd")),
        _text("polyglot", _given(texts.POLYGLOT), texts.mutate_polyglot, texts.imports("polyglot", ".bin")),
        _text("toml", _given(*texts.TOMLS), texts.toml_words, texts.read_toml),
        Target("uci", _given(*texts.SESSIONS), texts.uci_words, texts.play, texts.warm, batch=1),
        Target("lc0", networks.seeds, networks.mutate, networks.read, networks.warm),
        Target("onnx", networks.onnx_seeds, networks.mutate, networks.read_onnx, networks.warm),
    )
}  # fmt: skip

KERNELS = ("decode", "unpack", "entries")  # also run as plain Python, where numpy checks every index
FOLDER = Path("fuzz-failures")
