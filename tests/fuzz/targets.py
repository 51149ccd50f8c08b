"""The table of targets: everything that reads what comes from outside."""

from __future__ import annotations

from pathlib import Path

from . import damage, files, graphfile, kernels, networks, texts
from .harness import BATCH, Call, Mutate, Seeds, Target

EPDS = [graphfile.EPD, *(fen + b" id 1;" for fen in texts.FENS)]


def _given(*data: bytes) -> Seeds:
    return lambda _: list(data)


def _graph(name: str, mutate: Mutate) -> Target:
    return Target(name, graphfile.seeds, mutate, files.exercise, texts.warm, seconds=120)


def _text(name: str, seeds: Seeds, mutate: Mutate, call: Call, batch: int = BATCH) -> Target:
    return Target(name, seeds, mutate, call, texts.warm, megabytes=400, batch=batch)


def _kernel(name: str, seeds: Seeds, mutate: Mutate, call: Call) -> Target:
    return Target(name, seeds, mutate, call, kernels.warm)


TARGETS = {
    target.name: target
    for target in (
        _graph("graph-blocks", damage.by(damage.blocks)),
        _graph("graph-rows", damage.by(damage.rows)),
        _graph("graph-schema", damage.by(damage.schema)),
        _graph("graph-pages", damage.by(damage.pages)),
        _graph("graph-log", damage.of_log),
        _kernel("unpack", kernels.stored_seeds, kernels.mutate_stored, kernels.unpack),
        _kernel("entries", kernels.entry_seeds, kernels.mutate_entries, kernels.read_entries),
        _text("fen", _given(*texts.FENS), texts.mutate_fen, texts.read_fen),
        _text("pgn", _given(graphfile.PGN), texts.pgn_words, texts.imports("pgn", ".pgn")),
        _text("pgn-blocks", _given(graphfile.PGN, texts.NOTED), texts.pgn_words, texts.read_blocks),
        _text("pgn-studies", _given(graphfile.PGN, texts.NOTED), texts.pgn_words, texts.read_studies),
        _text("pgn-notes", _given(graphfile.PGN, texts.NOTED), texts.pgn_words, texts.read_notes),
        _text("pgn-zst", texts.zst_seeds, texts.mutate_zst, texts.imports("pgn", ".pgn.zst")),
        _text("epd", _given(*EPDS), texts.epd_words, texts.imports("epd", ".epd")),
        _text(
            "polyglot", _given(graphfile.POLYGLOT), texts.mutate_polyglot, texts.imports("polyglot", ".bin")
        ),
        _text("toml", _given(*texts.TOMLS), texts.toml_words, texts.read_toml),
        _text("uci", _given(*texts.SESSIONS), texts.uci_words, texts.play, batch=1),
        Target("lc0", networks.seeds, networks.mutate, networks.read, networks.warm),
        Target("nnue", networks.nnue_seeds, networks.mutate_nnue, networks.read_nnue, networks.warm),
    )
}

KERNELS = ("unpack", "entries")  # also run as plain Python, where numpy checks every index
FOLDER = Path("fuzz-failures")
