"""Writes the file of networks that the package ships, from states of training.

    python -m tools.training pack networks.bin value.npz policy.npz --card card.json

Both networks may come from one state, or each from its own, as when they learned at the same time.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tools.training.rounding import rounded
from tools.training.train import State


def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    out.add_argument("out", type=Path, help="file of networks to write")
    out.add_argument("value", type=Path, help="state of the value network")
    out.add_argument("policy", type=Path, help="state of the policy network")
    out.add_argument("--card", type=Path, help="JSON object for the card: where all comes from, figures")


def run(options: argparse.Namespace) -> int:
    """Writes the file of networks; returns the exit code."""
    card = json.loads(options.card.read_text()) if options.card else {}
    states = {name: State.read(getattr(options, name)) for name in ("value", "policy")}
    card["stages"] = [
        stage for name, state in states.items() for stage in state.stages if stage["name"].startswith(name)
    ]
    value, policy = (state.networks[name] for name, state in states.items())
    rounded(value, policy, card).write(options.out)
    return 0
