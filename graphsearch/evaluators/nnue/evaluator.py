"""`nnue:FILE|PROGRAM`: a Stockfish network that this program's kernels evaluate; no engine runs.

A program gives its network once (`export_net`); later it comes from the cache folder, from the file
networks/PROGRAM.nnue, where PROGRAM is a SHA-256 of program and arguments.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from ...base.errors import EvaluatorError
from ...jit.places import cache_folder
from ...store.provenance import EvaluatorIdentity, Option
from ..inside import BatchKernel, KernelEvaluator
from ..protocol import NNUE
from ..uci.program import Program, file_digest, find_program
from . import layout
from .file import Network, read_network
from .layout import NNUE_SUFFIX

REVISION = 4  # raise when the code's results change for the same network and numbers
MAPPING = "nnue-wdl"
FITTED = Path(__file__).with_name("fitted.json")
EXPORT_SECONDS = 60.0
LARGE, SMALL = f"large{NNUE_SUFFIX}", f"small{NNUE_SUFFIX}"
# From 16.1 on Stockfish has a second, small network, and requires a file name for it. It evaluates lopsided
# positions faster, not better; we do not use it.
REQUEST = f"export_net {LARGE} {SMALL}\nquit\n"


class NnueEvaluator(KernelEvaluator):
    """Computes V and P with a Stockfish network: quiescence search plus the best moves and replies.

    Attributes:
      identity: the network's hash, and a hash of the numbers and code that turn scores into V and P.
      network: the network.
      temperature: of the policy.
    """

    kernel_kind = NNUE

    def __init__(self, source: str, *, temperature: float = 1.0, threads: int = 0) -> None:
        """Reads a network.

        Args:
          source: a `.nnue` file, or a program with a network and the command `export_net`.
          temperature: PolicyTemperature; above 1 flattens the priors, below 1 sharpens them.
          threads: number of evaluating threads, 0 for all cores.

        Raises:
          EvaluatorError: if the file or program does not exist, or has no network of a known architecture.
        """
        self.network = network_of(source)
        self.weights, fitted = self.network.weights, json.loads(FITTED.read_text(encoding="utf-8"))
        self.weights[layout.EFFORT_AT : layout.EFFORT_AT + len(fitted["effort"])] = fitted["effort"]
        self.weights[int(self.weights[layout.FITTED_AT]) :][: len(fitted["numbers"])] = fitted["numbers"]
        self.temperature = temperature
        self.threads = threads
        behind = self.weights[layout.HEADER_WORDS - 8 : layout.HEADER_WORDS].tobytes()
        behind += self.weights[int(self.weights[layout.FITTED_AT]) :].tobytes() + bytes([REVISION])
        options: dict[str, Option] = {"numbers": hashlib.sha256(behind).hexdigest()[:16]}
        if temperature != 1.0:
            options["PolicyTemperature"] = temperature
        self.identity = EvaluatorIdentity("nnue", self.network.sha256, options, MAPPING)
        self.notes = (f"network of {self.network.architecture.engines}, {self.network.sha256[:12]}",)

    @property
    def batch_kernel(self) -> BatchKernel:
        """The network's kernel, with the size of its work area."""
        from .evaluation_kernel import evaluate_batch, scratch_words

        return BatchKernel(evaluate_batch, scratch_words(self.network.architecture.width))


# ------------------------------------------------------------------ networks of programs
def network_of(text: str) -> Network:
    """Returns the network of a `.nnue` file, or of a program such as `stockfish`.

    Raises:
      EvaluatorError: if the file or program does not exist, or has no network of a known architecture.
    """
    path = Path(text).expanduser()
    if path.suffix == NNUE_SUFFIX or (path.is_file() and "/" in text and shutil.which(path) is None):
        return read_network(path)
    program = find_program(text)
    whole = " ".join([file_digest(program.path), *program.arguments])
    folder = cache_folder("networks")
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return _exported(program, Path(temporary, LARGE))
    kept = folder / f"{hashlib.sha256(whole.encode()).hexdigest()}{NNUE_SUFFIX}"
    with suppress(EvaluatorError):
        return read_network(kept)
    return _exported(program, kept)


def _exported(program: Program, kept: Path) -> Network:
    """Returns the network that a program gives, and keeps it in a file."""
    label, nowhere = f"the program {program.label}", subprocess.DEVNULL
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        try:
            subprocess.run(  # noqa: S603
                program.command,
                input=REQUEST.encode(),
                stdout=nowhere,
                stderr=nowhere,
                cwd=folder,
                timeout=EXPORT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise EvaluatorError(f"{label} gave no network within {EXPORT_SECONDS:.0f} s") from None
        except OSError as error:
            raise EvaluatorError(f"{label} cannot be started: {error.strerror or error}") from None
        given = Path(folder, LARGE)
        if not given.is_file():
            raise EvaluatorError(
                f"{label} gave no network when asked to (export_net): Stockfish 15.1 to 17.1 do; a network in"
                f" a file is nnue:FILE{NNUE_SUFFIX}"
            )
        network = read_network(given)
        with suppress(OSError):  # if that path is a folder, the network is not kept
            given.replace(kept)
    return network
