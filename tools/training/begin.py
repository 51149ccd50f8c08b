"""Makes a state of training from a file of networks, so that learning goes on from it.

python -m tools.training begin STATE.npz graphsearch/evaluators/builtin/networks.bin
"""

from __future__ import annotations

import argparse
from pathlib import Path

from graphsearch.evaluators.builtin.weights import read_networks
from tools.training.rounding import unrounded
from tools.training.train import State


def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    out.add_argument("state", type=Path)
    out.add_argument("networks", type=Path, help="file that `pack` wrote")


def run(options: argparse.Namespace) -> int:
    """Writes the state; returns the exit code."""
    networks = read_networks(options.networks.read_bytes(), str(options.networks))
    State(unrounded(networks), networks.card["stages"]).write(options.state)
    return 0
